"""A small federation on disk, and runs that stream it."""

import maxfl
from maxfl.core.federation_files import open_federation
from maxfl.engine.streaming.simulation import StreamingSimulation

MODEL = maxfl.mlp(4, (5,), 3)
TRAINING = maxfl.Training(rounds=6, cohort=3, local_steps=3, batch_size=4, evaluate_every=2)


SIZES = [9, 6, 7, 12, 8, 10, 20, 6]
"""Any three of the first six have 17 to 32 samples, which one program computes."""
OPTIONS = {
    "requirement": maxfl.solo(steps=5), "seed": 3, "participation": maxfl.decline(2, dropout=0.2),
    "adversary": maxfl.attacks.byzantine(0.3),
}  # fmt: skip


OPT_OUT = {
    "requirement": maxfl.solo(1.15, steps=5), "seed": 3,
    "participation": maxfl.opt_out(2, dropout=0.2), "adversary": maxfl.attacks.byzantine(0.17),
}  # fmt: skip


def to_be_killed(place, **options):
    """SCAFFOLD, whose clients keep something on disk, with clients that opt out."""
    training = TRAINING._replace(rounds=10, evaluate_every=1, block=1)
    return StreamingSimulation(open_federation(place), MODEL, maxfl.scaffold(), training, ask=6,
                  **{**OPT_OUT, **options})  # fmt: skip
