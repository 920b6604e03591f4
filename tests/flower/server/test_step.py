"""What the server keeps for a method outlives a stop; and sums may be secure."""

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from safetensors.numpy import load_file

import maxfl
from maxfl import server_optimizers
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.monitoring.rollback import roll_back
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import (
    assert_extends_and_rolls_back,
    federation,
    run,
    same_results,
    stopped,
)
from support.flower_secure import CLIENTS, Watched, secure_app, secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

METHODS = {
    "adam": {"server_optimizer": server_optimizers.adam(), "server_lr": 0.1},
    "momentum": {"algorithm": "fedavg", "server_optimizer": server_optimizers.momentum()},
    "annealed": {"algorithm": maxfl.maxfl_annealed(rounds=4)},
    "qffl": {"algorithm": "qffl", "local_lr": 0.1},
    "by samples": {"algorithm": maxfl.fedavg(by_size=1)},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_goes_on_to_the_same_end(tmp_path, name):
    options = METHODS[name] | {"collect_losses": True}
    run(tmp_path / "whole", federation(), **options)
    nodes = federation()
    stopped(nodes, tmp_path / "cut", 6, **options)
    run(tmp_path / "cut", nodes, resume=True, **options)
    same_results(tmp_path / "cut", tmp_path / "whole")
    assert set(load_file(tmp_path / "cut" / "model.safetensors")) == set(START)


def test_a_run_with_moments_is_extended_and_taken_back(tmp_path):
    options = METHODS["adam"] | {"keep": 5, "server_schedule": maxfl.schedules.constant()}

    def train(folder, **how):
        run(folder, federation(), **options, **how)
        assert (folder / "server-state.safetensors").is_file()

    assert_extends_and_rolls_back(tmp_path, train)


def test_other_numbers_are_another_experiment(tmp_path):
    run(tmp_path / "run", federation(), algorithm=maxfl.fedprox(0.1))
    for options, words in (
        ({"algorithm": maxfl.fedprox(0.2)}, r"config\.algorithm\.mu"),
        ({"algorithm": maxfl.fedprox(0.1), "server_optimizer": server_optimizers.momentum()},
         r"config\.server\.beta1"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            run(tmp_path / "run", federation(), resume=True, **options)


def test_results_name_the_method(tmp_path):
    run(tmp_path / "run", federation(), algorithm="fedavg")
    weights = pq.read_table(tmp_path / "run" / "weights.parquet").to_pylist()
    assert {row["weight"] for row in weights} == {0.25}, "all weigh the same"
    assert "Trained with FedAvg" in (tmp_path / "run" / "model-card.md").read_text()


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_methods_in_which_all_weigh_the_same_have_secure_sums(method):
    nodes = Watched(*[secure_app(*client) for client in CLIENTS])
    strategy, through = secure_strategy(nodes, algorithm=method)
    ((model, _),) = train(strategy, through)
    ((plain, _),) = train(
        MaxFL(algorithm=method), Nodes(*[make_app(*client) for client in CLIENTS])
    )
    for name in START:
        np.testing.assert_allclose(model[name], plain[name], atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"algorithm": "qffl", "local_lr": 0.1}, {"algorithm": "scaffold"},
     {"algorithm": maxfl.fedavg(by_size=1)}],
)  # fmt: skip
def test_methods_whose_sums_have_no_bounds_are_refused_with_privacy(options):
    with pytest.raises(InputError, match=r"privacy can't be had together with (algorithm|fedavg)"):
        MaxFL(privacy=Privacy(clip=1.0, secure=True), fraction_evaluate=0.0, **options)


@pytest.mark.parametrize("optimizer", [
    server_optimizers.momentum(), server_optimizers.adam(), server_optimizers.yogi()
], ids=lambda optimizer: optimizer.kind)  # fmt: skip
def test_an_optimizer_keeps_shapes_and_types(optimizer):
    start = START | {"scale": np.array(0.5, np.float32), "wide": np.array([0.1, 1e9 + 1])}
    apps = [make_app(1.0, 2.0, change=0.01) for _ in range(3)]
    strategy = MaxFL(temperature=1.0, server_optimizer=optimizer, server_lr=0.1)
    found = train(strategy, Nodes(*apps), rounds=4, start=start)[-1][0]
    assert [entry.counts.participated for entry in strategy.rounds] == [3] * 4
    for name, array in start.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
    assert found["wide"][1] != np.float32(found["wide"][1]), "in double precision"


def test_a_number_without_a_dimension_outlives_a_stop(tmp_path):
    start = START | {"scale": np.array(0.5, np.float32)}
    nodes = Nodes(*[make_app(1.0, 2.0, change=0) for _ in range(3)])
    for rounds in (2, 4):
        strategy = MaxFL(folder=tmp_path / "run", resume=rounds == 4)
        strategy.start(nodes, arrays(start), num_rounds=rounds)
        assert strategy.rounds[-1].counts.participated == 3
    assert load_file(tmp_path / "run" / "model.safetensors")["scale"].shape == ()


def test_moments_that_are_not_finite_are_not_kept():
    """Of two clients there is no median to tell which is too long."""
    wild = iter([1e21, 0.1, 0.1])
    good, other = make_app(1.0, 2.0, 0.1), make_app(1.0, 2.0, 0.1)

    def once(message, context):
        reply, change = other(message, context), next(wild)
        if change > 1:
            reply.content["arrays"] = arrays({n: w - np.float32(change) for n, w in START.items()})
        return reply

    strategy = MaxFL(temperature=1.0, server_optimizer=server_optimizers.adam(), server_lr=0.01)
    results = train(strategy, Nodes(good, once), rounds=3)
    assert strategy.rounds[0].no_step == "the step along the replies is not finite"
    assert results[-1][0]["w"][0] < results[0][0]["w"][0] == START["w"][0]


def test_moments_of_rounds_that_were_taken_back_are_gone(tmp_path):
    options = METHODS["adam"] | {"keep": 5}
    run(tmp_path / "run", federation(), rounds=3, **options)
    roll_back(tmp_path / "run", 1)
    assert not (tmp_path / "run" / "server-state.safetensors").exists()


def test_by_samples_all_have_their_share(tmp_path):
    run(tmp_path / "run", federation(), algorithm=maxfl.fedavg(by_size=1))
    rows = pq.read_table(tmp_path / "run" / "weights.parquet").to_pylist()
    assert [row["share"] for row in rows[:3]] == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_a_start_that_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match="trained_arrays has 'lora'"):
        run(tmp_path / "run", federation(), trained_arrays=["lora"])
    assert not (tmp_path / "run").exists()
