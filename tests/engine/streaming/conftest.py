"""A small federation on disk for all tests of streaming."""

import pytest

import maxfl
from support.streamed import write_clients


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """The folder of the federation."""
    return write_clients(tmp_path_factory.mktemp("federation") / "clients")


@pytest.fixture(scope="session")
def on_disk(place):
    """The federation, its samples mapped from files."""
    return maxfl.open_federation(place)
