"""An experiment on devices: how many configurations there are, and how many run at once."""

import jax
import pytest

import maxfl
from support.small import TRAINING, simulation

RATES = [0.1, 0.2, 0.3, 0.4, 0.5]


def test_plain_tuples_are_arrays_too():
    training = TRAINING._replace(local_lr=(0.1, 0.2))
    assert simulation(maxfl.fedavg(), training, seed=(0, 1)).session.configurations == 2


def test_a_sweep_that_does_not_fit_is_cut(monkeypatch):
    # That the cut changes no result is test_simulation's, which cuts by max_parallel.
    def make(free):
        monkeypatch.setattr("maxfl.engine.session.free_bytes", lambda _: free)
        return simulation(
            maxfl.maxfl(), TRAINING._replace(local_lr=RATES),
            max_parallel=8, devices=jax.devices()[:1],
        ).session  # fmt: skip

    roomy = make(10**12)
    each = roomy.footprint.configuration + TRAINING.cohort * roomy.footprint.client
    tight = make(int((roomy.footprint.data + 2.5 * each) / 0.7))
    layouts = roomy.spec.layout, tight.spec.layout
    assert [layout.parallel_configurations for layout in layouts] == [5, 2]


@pytest.mark.parametrize("devices", [1, 2])
def test_configurations_are_repeated_up_to_a_multiple_of_the_devices(devices):
    session = simulation(
        maxfl.maxfl(), TRAINING._replace(local_lr=RATES, cohort=1), devices=jax.devices()[:devices]
    ).session
    rows = session.spec.layout.mesh.shape["sweep"]
    assert rows == devices
    rates = session.hparams.local_lr.tolist()
    assert rates == pytest.approx([*RATES, *RATES[-1:] * (devices - 1)])
    assert session.narrow(session.hparams.local_lr).tolist() == rates[:5]
