"""A federation of three clients in this process, run in a folder and stopped there."""

import numpy as np
import pytest

from maxfl.flower import MaxFL
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
