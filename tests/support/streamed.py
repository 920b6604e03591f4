"""A small federation on disk, and runs that stream it."""

import maxfl
from maxfl.core.federation_files import write_federation
from support.federations import make_clients

MODEL = maxfl.mlp(4, (5,), 3)
TRAINING = maxfl.Training(rounds=6, cohort=3, local_steps=3, batch_size=4, evaluate_every=2)
SIZES = [9, 6, 7, 12, 8, 10, 20, 6]
"""Half of any three of the first six are 9 to 16 samples, which one program computes."""
CLIENTS = list(zip(make_clients(SIZES), make_clients(SIZES[::-1]), strict=True))
"""Training and test data of each; the last two are unseen."""
HELD_OUT = {"judge_fraction": 0.5, "local_lr": (0.05, 0.01), "batch_size": 4}
"""How clients judge, and train alone."""
OPTIONS = {
    "requirement": maxfl.solo(steps=5, **HELD_OUT),
    "seed": 3,
    "participation": maxfl.decline(2, client_dropout=0.2),
    "attack": maxfl.attacks.byzantine(0.3),
}
OPT_OUT = {
    "requirement": maxfl.solo(1.0, steps=5, **HELD_OUT),
    "seed": 3,
    "participation": maxfl.opt_out(2, client_dropout=0.2),
    "attack": maxfl.attacks.byzantine(0.17),
}


def write_clients(folder):
    """Write the federation and return its folder."""
    return write_federation(folder, iter(CLIENTS), classes=3, unseen=2)


def in_memory():
    """Return what is to be streamed: the federation in memory, and SCAFFOLD, with client states."""
    federation = maxfl.Federation.from_clients(*zip(*CLIENTS, strict=True), unseen=2)
    return federation, MODEL, maxfl.scaffold(), TRAINING


def to_be_killed(place, **options):
    """Return SCAFFOLD, whose clients keep something on disk, with clients that opt out."""
    training = TRAINING._replace(rounds=10, evaluate_every=1, checkpoint_every=1)
    return maxfl.StreamingSimulation(
        maxfl.open_federation(place), MODEL, maxfl.scaffold(), training,
        **{"max_candidates": 6, **OPT_OUT, **options},
    )  # fmt: skip
