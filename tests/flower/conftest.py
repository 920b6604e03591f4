"""What every test with Flower's messages needs."""

import logging

import pytest


@pytest.fixture
def flower_identity(monkeypatch):
    """A task that messages are made in, which Flower asks for; and no log of every round."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
