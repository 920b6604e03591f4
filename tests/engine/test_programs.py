"""What is compiled: nothing anew for another value; and the tests count what they compile."""

import maxfl
from maxfl.engine.programs import run_block, train_solo
from support.block_programs import BLOCKS
from support.small import Choice, simulate, sweep, train


def test_a_new_value_does_not_compile_again():
    train(**sweep(Choice()))
    before = run_block._cache_size(), train_solo._cache_size()
    arguments = sweep(Choice(99, 0.123, 0.017, 5, 4, 5, 0.3, 2.0), rounds=11)
    training = arguments["training"]._replace(server_lr=0.3)
    algorithm = maxfl.maxfl(temperature=0.123, epsilon=0.5)
    simulate(**{**arguments, "training": training, "algorithm": algorithm})
    assert (run_block._cache_size(), train_solo._cache_size()) == before


def test_programs_of_blocks_are_counted():
    train(maxfl.fedavg())
    assert BLOCKS.keys, "JAX does not log the look-up of a program as tests/support expects it"
