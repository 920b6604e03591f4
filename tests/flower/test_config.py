"""Settings of the strategy that make no sense, alone or together."""

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.core import aggregators
from maxfl.flower import MaxFL, Privacy
from maxfl.utils.errors import InputError
from support.flower_secure import SECURE

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MaxFL(temperature=0), "algorithm.temperature"),
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
        ({"privacy": SECURE, "fraction_evaluate": 1.0}, "set fraction_evaluate=0"),
        ({"privacy": SECURE, "collect_losses": True}, "collect_losses=True"),
        ({"privacy": SECURE, "observe_only": True}, "observe_only=True"),
        ({"privacy": SECURE, "aggregator": aggregators.median()}, "aggregator="),
    ],
)
def test_settings_that_protect_nothing_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**{"fraction_evaluate": 0.0} | options)


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
