"""A run that tests interrupt, kill and resume: twenty blocks of four rounds."""

import maxfl
from maxfl.utils.files import digest
from support import small

RESULTS = ("history.parquet", "rounds.parquet", "clients.parquet", "model.safetensors")
BLOCKS = 20
TRAINING = small.TRAINING._replace(rounds=4 * BLOCKS - 1, batch_size=(4, 2))
"""An evaluation of the untrained model comes first, so that the first block has three rounds."""


def simulation(training=None, **options):
    """Return a simulation of two configurations whose clients opt out."""
    options = {
        "algorithm": maxfl.maxfl((0.5, 1.0)),
        "model": small.DROPOUT_MODEL,
        "participation": maxfl.opt_out(5),
        "requirement": maxfl.solo(1.5, 10),
        **options,
    }
    return small.simulation(training=TRAINING._replace(**training or {}), **options)


def stop_after(blocks):
    """Return a progress callback that ends the run after some blocks, as Ctrl-C would."""

    def report(stage, done, total):  # noqa: ARG001
        if stage == "rounds" and done >= 4 * blocks - 1:
            raise KeyboardInterrupt

    return report


def cut_off(folder, blocks=6):
    """Run into a folder and stop in the middle."""
    try:
        maxfl.run(simulation(), folder, progress=stop_after(blocks))
    except KeyboardInterrupt:
        return folder
    raise AssertionError("the run should be stopped")


def results(folder):
    """Return digests of the results in a folder."""
    return {name: digest((folder / name).read_bytes()) for name in RESULTS}
