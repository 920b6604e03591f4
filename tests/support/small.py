"""The federation, the models and the training that most tests share, so that few programs compile.

Nearly all of the tests' time is compilation. A program is compiled anew for another model, method,
participation rule or shape of the data, and for another cohort, batch size, period of evaluations,
length of a block or number of configurations. It is not for other rounds, steps, rates, seeds or
hyper-parameters: change those.
"""

import functools
from typing import NamedTuple

import jax

import maxfl
from support.federations import CLASSES, FEATURES, make_clients

SIZES = [5, 1, 40, 17, 8, 30, 12, 9]
SMALL = maxfl.Federation.from_clients(make_clients(SIZES), make_clients(SIZES[::-1], 1), unseen=2)
"""Eight clients of unequal size, two of them unseen."""
MODEL = maxfl.mlp(FEATURES, (6, 5), CLASSES, dropout=0.0)
"""An MLP without dropout, so that the oracle can follow it."""
DROPOUT_MODEL = maxfl.mlp(FEATURES, (6, 5), CLASSES, dropout=0.4)
"""Where draws of dropout are under test too."""
TRAINING = maxfl.Training(
    rounds=6,
    cohort=3,
    local_steps=3,
    batch_size=4,
    local_lr=0.2,
    evaluate_every=1,
    checkpoint_every=4,
)
"""At least three rounds, or blocks are shorter."""


PAPER = {"judge": "training", "local_lr": "training", "batch_size": "training"}
"""Options of a requirement as the paper has it, for tests of something else."""


def one_device():
    """Return the first of the two devices that tests have."""
    return (jax.devices()[0],)


def simulation(algorithm, training=TRAINING, *, model=MODEL, **options):
    """Return a simulation of the small federation."""
    options = {"requirement": maxfl.solo(1.2, steps=5, **PAPER), **options}
    return maxfl.Simulation(SMALL, model, algorithm, training, **options)


def simulate(algorithm, training=TRAINING, *, model=MODEL, **options):
    """Train the small federation and return its history."""
    options = {"requirement": maxfl.solo(1.2, steps=5, **PAPER), **options}
    return maxfl.simulate(SMALL, model, algorithm, training, **options)


train = functools.cache(simulate)
"""The same, once for equal arguments; in these, arrays are tuples."""


class Choice(NamedTuple):
    """What one configuration of a sweep may choose; all of it shares a program."""

    seed: int = 0
    temperature: float = 1.0
    local_lr: float = 0.2
    local_steps: int = 3
    batch_size: int = 4
    start_round: int = 3
    client_dropout: float = 0.0
    multiple: float = 1.5


PAIR = (Choice(), Choice(4, 0.3, 0.1, 2, 2, 2, 0.2, 1.2))
"""Two configurations that differ in everything: minibatches too, so that some are masked."""


def sweep(*choices, rounds=7, **options):
    """Return arguments of ``train``: MaxFL, clients that opt out, a model with dropout."""
    chosen = Choice(*zip(*choices, strict=True)) if len(choices) > 1 else choices[0]
    training = TRAINING._replace(
        rounds=rounds,
        local_lr=chosen.local_lr,
        local_steps=chosen.local_steps,
        batch_size=chosen.batch_size,
    )
    return {
        "algorithm": maxfl.maxfl(chosen.temperature),
        "training": training,
        "model": DROPOUT_MODEL,
        "participation": maxfl.opt_out(chosen.start_round, chosen.client_dropout),
        "requirement": maxfl.solo(chosen.multiple, steps=10, **PAPER),
        "seed": chosen.seed,
        **options,
    }


def every_third(*choices, **options):
    """Return arguments of ``train`` for such a sweep, evaluated after every third round."""
    arguments = sweep(*choices, **options)
    training = arguments["training"]._replace(evaluate_every=3, checkpoint_every=6)
    return {**arguments, "training": training}


def everything(rounds=6, **options):
    """Return arguments of ``train`` with all that a run may have at once.

    States of the server, of its optimizer and of clients, updates with more than the model in them,
    a robust aggregator, Byzantine clients, clients that fail, and fine-tuning; two configurations.
    """
    return {
        "algorithm": maxfl.scaffold(),
        "training": TRAINING._replace(rounds=rounds, server_lr=0.03),
        "server_optimizer": maxfl.server_optimizers.yogi(),
        "aggregator": maxfl.aggregators.median(),
        "attack": maxfl.attacks.byzantine(0.25, noise_std=0.1, loss_inflation=1.0),
        "participation": maxfl.everyone(0.2),
        "finetune_steps": 2,
        "seed": (0, 1),
        **options,
    }
