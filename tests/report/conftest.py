"""Made runs that several tests report on."""

import pytest

from support.made_runs import CLIENTS, ROUNDS, make_history, settings_of, write_run


def write_two(folder, seeds=(0, 1)):
    """Two methods on the same clients, some seeds of each."""
    return [
        write_run(
            folder / f"{name}-{seed}",
            make_history(CLIENTS, ROUNDS, unseen=2, drift=drift, seed=seed),
            settings_of(name),
            seed,
            f"federation {seed}",
        )
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
        for seed in seeds
    ]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return write_two(tmp_path_factory.mktemp("two"))
