"""An experiment on devices: how many configurations there are, and how many run at once."""

import jax
import pytest

import maxfl
from support.small import PAPER, TRAINING, simulation

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
    each = max(roomy.footprint.at_work(TRAINING.cohort), roomy.footprint.evaluated)
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


@pytest.mark.parametrize(
    ("training", "requirement", "moves"),
    [
        ({"local_lr": (0.1, 0.2)}, maxfl.solo(**PAPER), True),
        ({"batch_size": (4, 8)}, maxfl.solo(batch_size="training"), True),
        ({"local_lr": (0.1, 0.2), "batch_size": (4, 8)}, maxfl.solo(), False),
        ({"local_lr": (0.1, 0.2)}, maxfl.solo(batch_size="training"), False),
        ({"local_lr": (0.1, 0.1)}, maxfl.solo(**PAPER), False),
        ({"local_lr": (0.1, 0.2)}, maxfl.fixed(1.0, **PAPER), False),
    ],
)
def test_requirements_that_move_with_the_training_are_known(training, requirement, moves):
    made = simulation(
        maxfl.fedavg(), TRAINING._replace(**training), requirement=requirement, seed=(0, 1)
    )
    assert bool(made.session.moving_requirements) is moves


def test_requirements_move_with_the_optimizer_of_the_clients():
    made = simulation(
        maxfl.fedavg(), requirement=maxfl.solo(), seed=(0, 1),
        local_optimizer=maxfl.local_optimizers.sgd(weight_decay=(0.1, 0.2)),
    )  # fmt: skip
    (words,) = made.session.moving_requirements
    assert words.endswith("trained with the local optimizer (local.*), in which these differ")


def test_a_run_whose_requirements_move_says_so():
    made = simulation(maxfl.fedavg(), TRAINING._replace(local_lr=(0.1, 0.2)), seed=(0, 0))
    words = (
        "what clients require differs between configurations: .* with training.local_lr and "
        "training.batch_size, in which .* set requirement.local_lr and requirement.batch_size to"
    )
    with pytest.warns(maxfl.TrainingWarning, match=words):
        made.prepare()
