"""Settings of the strategy that make no sense, alone or together."""

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.core import aggregators, schedules
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.server.description import describe
from maxfl.utils.errors import InputError
from support.flower_secure import SECURE

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MaxFL(temperature=0), "algorithm.temperature"),
        (lambda: MaxFL(temperature=0, observe_only=True), "algorithm.temperature"),
        (lambda: MaxFL(temperature="automatic"), "temperature = 'automatic': expected \"auto\""),
        (lambda: MaxFL(epsilon=-1), "algorithm.epsilon"),
        (lambda: MaxFL(scale=0), "scale"),
        (lambda: MaxFL(scale=0.5, temperature=1.0), "temperature = 1.0 does not: leave one"),
        (lambda: MaxFL(server_schedule="cosine"), "expected one of maxfl.schedules"),
        (lambda: MaxFL(server_lr=[1.0, 2.0]), r"server_lr = .*: expected one number"),
        (lambda: MaxFL(max_update_norm=-1), "max_update_norm"),
        (lambda: MaxFL(aggregator=aggregators.mean(clip_norm=-1)), "server.clip_norm"),
        (lambda: MaxFL(decline_after=-1), "decline_after"),
        (lambda: MaxFL(decline_after=3).start(None, None, 3), "nobody could ever decline"),
        (
            lambda: MaxFL(observe_only=True, aggregator=aggregators.median()),
            "aggregator= has no effect",
        ),
        (lambda: MaxFL(aggregator="median"), "aggregator = 'median': expected one of maxfl.agg"),
        (lambda: MaxFL(privacy={"clip": 1.0}), "expected a maxfl.flower.Privacy"),
        (lambda: MaxFL(fraction_train=2.0), "fraction_train"),
        (lambda: MaxFL(metric="mae"), "metric = 'mae': expected maxfl.metrics.MetricInfo"),
    ],
)
def test_bad_settings_are_told(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"privacy": Privacy(clip=-1.0, secure=True)}, "privacy.clip"),
        ({"privacy": Privacy(clip=1.0)}, "protects nothing"),
        ({"privacy": Privacy(clip=1.0, noise_multiplier=-1.0)}, "noise_multiplier"),
        ({"privacy": Privacy(clip=1.0, delta=0.0, secure=True)}, "privacy.delta"),
        ({"privacy": Privacy(clip=1.0, noise_multiplier=1.0)}, "say scale=0.5, or whatever gap"),
        ({"privacy": SECURE, "fraction_evaluate": 1.0}, "set fraction_evaluate=0"),
        ({"privacy": SECURE, "collect_losses": True}, "collect_losses=True"),
        ({"privacy": SECURE, "observe_only": True}, "observe_only=True"),
        ({"privacy": SECURE, "aggregator": aggregators.median()}, "aggregator="),
    ],
)
def test_settings_that_protect_nothing_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**{"fraction_evaluate": 0.0} | options)


def test_the_defaults_are_those_of_the_solver():
    """With a number for T it is the paper's MaxFL at a constant rate, and its ε."""
    shrinking, constant = schedules.exponential(end=0.18), schedules.constant()
    for strategy, name, epsilon, schedule in (
        (MaxFL(), "maxfl-auto", 0.1, shrinking),
        (MaxFL(temperature=1.0), "maxfl", 1e-3, constant),
        (MaxFL(observe_only=True), "fedavg", 0.0, constant),
        (MaxFL(epsilon=0.5, server_schedule=constant), "maxfl-auto", 0.5, constant),
    ):
        config = strategy._config
        assert (config.stepping.name, config.step_epsilon) == (name, epsilon)
        assert config.chosen_schedule == schedule


def test_settings_have_the_names_that_a_simulation_has_for_them():
    described = describe(MaxFL()._config, 6, 1.0, "num-examples")
    assert described["algorithm"]["name"] == "maxfl-auto"
    assert described["schedule"] == {
        "server": "exponential", "server_end": 0.18, "server_warmup": 0.0, "server_rounds": 6.0
    }  # fmt: skip
    assert "schedule" not in describe(MaxFL(temperature=1.0)._config, 6, 1.0, "num-examples")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("floor", "min_participants"),
        ("least_replies", "min_replies"),
        ("largest_norm", "max_update_norm"),
        ("robust", "aggregator"),
        ("observe", "observe_only"),
        ("reveal", "collect_losses"),
        ("accuracy_key", "metric_key"),
    ],
)
def test_a_renamed_argument_is_refused_with_its_new_name(old, new):
    with pytest.raises(InputError, match=f"{old}= is called {new}= now"):
        MaxFL(**{old: None})
