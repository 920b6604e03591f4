"""A federation of three clients in this process, run in a folder and stopped there."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from maxfl.flower import MaxFL, run_folder
from maxfl.flower.monitoring import checkpoints, rollback
from maxfl.utils import files
from support.flower_nodes import START, Nodes, arrays, make_app


def distance(target):
    """The loss function of a client that wants w near a target."""
    return lambda message, _: float(np.abs(message.content["arrays"]["w"].numpy() - target).mean())


def distance_of(w, target):
    """The loss of a model for such a client."""
    return float(np.abs(w - target).mean())


def federation(**options):
    """Three clients: one content, one out of reach, one whose loss on data it kept is larger."""
    return Nodes(
        make_app(distance(0.0), 5.0, 0.5, 10, **options),
        make_app(distance(9.0), 1.0, 0.2, 20, **options),
        make_app(distance(1.0), 3.0, 0.1, 30, **options),
    )


def stopped(nodes, folder, call, **options):
    """A run that is stopped by its first client, at its call number ``call``."""
    calls = []
    node, good = next(iter(nodes.apps.items()))

    def stops(message, context):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return good(message, context)

    nodes.apps[node] = stops
    with pytest.raises(KeyboardInterrupt):
        run(folder, nodes, **options)


def run(folder, nodes, rounds=4, **options):
    """The strategy's result, in a folder."""
    return MaxFL(folder=folder, **options).start(nodes, arrays(START), num_rounds=rounds)


def same_results(folder, other):
    """Compare the final models bit by bit, and all tables."""
    models = [load_file(path / "model.safetensors") for path in (folder, other)]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        np.testing.assert_array_equal(array, models[1][name])
    tables = sorted(path.name for path in folder.glob("*.parquet"))
    assert tables == sorted(path.name for path in other.glob("*.parquet"))
    for name in tables:
        one, two = (pq.read_table(path / name).to_pylist() for path in (folder, other))
        assert str(one) == str(two)  # NaN and all


def assert_extends_and_rolls_back(path, train):
    """Compare runs of five rounds: whole, extended after three, and taken back to two.

    Args:
        path: Of a new folder.
        train: train(folder, **options) runs in a folder; ``keep`` must be 5.
    """
    whole, more = path / "whole", path / "more"
    train(whole, rounds=5)
    train(more, rounds=3)
    train(more, rounds=5, resume=True)
    same_results(more, whole)
    assert rollback.roll_back(more, 2) == 5
    train(more, rounds=5, resume=True)
    same_results(more, whole)


def killed_at_write(monkeypatch, call, work):
    """Do some work, killed at its write number ``call`` of a whole file; tell which were begun."""
    writes, write = [], files.write_whole

    def killing(path, content, *options):
        writes.append(path.name)
        if len(writes) == call:
            raise KeyboardInterrupt
        write(path, content, *options)

    with monkeypatch.context() as patch:
        for module in (files, checkpoints, run_folder, rollback):
            patch.setattr(module, "write_whole", killing)
        with pytest.raises(KeyboardInterrupt):
            work()
    return writes
