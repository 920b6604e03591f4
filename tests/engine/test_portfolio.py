"""Several global models: an oracle in plain NumPy follows the engine, sweeps, devices, streams."""

import json

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

import maxfl
from support import batch_norm, oracle, resumable, small
from support.federations import CLASSES, FEATURES
from support.oracle_portfolio import Method, Tracking, costs
from support.oracle_runs import TRAINING
from support.portfolio_runs import Run, final_models, starts

ROUNDS = 9
MAXFL, BY_APPEAL = maxfl.maxfl(0.7, 0.02), Method("appeal", 0.02, 0.7, patience=1)
AUTO = maxfl.maxfl_auto(multiple=2.0, quantile=0.25, gain=0.5, epsilon=0.02)
HELD_OUT = maxfl.solo(1.2, steps=5, local_lr=0.2, batch_size=4)


def arguments(algorithm=MAXFL, models=3, rounds=ROUNDS, **options):
    """Return arguments of a run in which a model is vacant once nobody trained it in a round.

    The seeds below keep clients from picking between models that are equally good to six digits.
    """
    portfolio = maxfl.portfolio(models, patience=1)
    training = TRAINING._replace(rounds=rounds)
    return {"algorithm": algorithm, "training": training, "portfolio": portfolio, **options}


def trained(*positional, **options):
    """Train the small federation, once for equal arguments."""
    return small.train(**arguments(*positional, **options))


def assert_same_run(one, other, configuration=0, names=("picked",)):
    """Compare a configuration of one history with the other: draws exactly, numbers to 1e-5."""
    for name in ("client_id", "participated"):
        ours, theirs = (getattr(run.cohorts, name) for run in (one, other))
        np.testing.assert_array_equal(ours[configuration], theirs[0])
    for name in ("judging_loss", "test_loss", "weight", "willing", *names):
        ours, theirs = (getattr(run.evaluation, name) for run in (one, other))
        np.testing.assert_allclose(ours[configuration], theirs[0], atol=1e-5, err_msg=name)


def assert_same_models(one, other, models, configuration=0):
    """Compare the first models of a configuration with those of another run, to 1e-5."""
    for a, b in zip(*map(jax.tree.leaves, (one.params, other.params)), strict=True):
        theirs = b[0].reshape(models, *a.shape[2:])
        np.testing.assert_allclose(a[configuration, :models], theirs, atol=1e-5)


# ----------------------------------------------------------------------------- the oracle


def test_maxfl_agrees_with_the_oracle():
    rounds = Run(trained(seed=7), BY_APPEAL, 3, seed=7).follow()
    assert any(round_.has_twins_apart for round_ in rounds), "a model should start anew"


@pytest.mark.slow
def test_each_model_has_a_momentum_of_its_own_and_a_round_without_anybody_counts_for_nothing():
    options = {"participation": maxfl.decline(2), "seed": 3}
    history = trained(server_optimizer=maxfl.server_optimizers.momentum(0.8), **options)
    rounds = Run(history, BY_APPEAL._replace(beta=0.8), 3, **options).follow()
    assert any(round_.has_twins_apart for round_ in rounds), "a model should start anew"
    assert any(not round_.cohort for round_ in rounds[:-3]), "all should decline at times"


@pytest.fixture(scope="module")
def by_opt_out():
    """The temperature follows all clients' gaps; clients judge by samples that they hold out."""
    options = {"participation": maxfl.opt_out(6), "requirement": HELD_OUT, "seed": 15}
    method = Method("appeal", 0.02, tracking=Tracking(2.0, 0.25, 0.5), patience=1)
    return Run(trained(AUTO, **options), method, 3, **options)


@pytest.mark.slow
def test_maxfl_auto_agrees_with_the_oracle(by_opt_out):
    rounds = by_opt_out.follow()
    assert any(round_.has_twins_apart for round_ in rounds[:6]), "a model should start anew"
    assert all(round_.vacant is None for round_ in rounds[7:]), "who stays is satisfied"
    assert len({round_.before.scale for round_ in rounds}) == ROUNDS


@pytest.mark.slow
def test_clients_pick_by_what_they_judge_by_and_test_what_they_picked(by_opt_out):
    evaluation, otherwise = by_opt_out.history.evaluation, 0
    for t, models in ((0, starts(3, seed=15)), (-1, final_models(by_opt_out.history, 3))):
        on_judging, on_test = (
            np.array([[oracle.loss(w, x, y) for w in models] for x, y in data])
            for data in (by_opt_out.judged, by_opt_out.tested)
        )
        picked = evaluation.picked[0, t]
        np.testing.assert_array_equal(picked, on_judging.argmin(1))
        expected = np.take_along_axis(on_test, picked[:, None], 1)[:, 0]
        np.testing.assert_allclose(evaluation.test_loss[0, t], expected, atol=1e-5)
        otherwise += (picked != on_test.argmin(1)).sum()
    assert otherwise, "test data should tell another model for somebody"


@pytest.mark.slow
def test_clients_pick_by_a_metric_and_finetune_what_they_picked():
    """Requirements are accuracies, of which many are equal: then the loss decides."""
    options = {"requirement": maxfl.metric("accuracy", 0.47, steps=5, **small.PAPER), "seed": 7}
    history = trained(maxfl.maxfl(0.2, 0.02), finetune_steps=2, **options)
    method = BY_APPEAL._replace(temperature=0.2, cost="accuracy", finetune_steps=2)
    run = Run(history, method, 3, **options)
    rounds = run.follow()
    assert any(round_.has_twins_apart for round_ in rounds), "a model should start anew"
    # Neither the first of the best accuracies nor the best after fine-tuning is what they pick.
    first, tuned = [], []
    for round_ in rounds:
        for k, data in enumerate(run.judged):
            models = round_.before.models
            first.append(np.argmax([oracle.accuracy(w, *data) for w in models]))
            after = [costs(run.finetuned(k, w), data, "accuracy") for w in models]
            tuned.append(after.index(min(after)))
    picked = history.evaluation.picked[0, :ROUNDS].ravel()
    assert (picked != first).any()
    assert (picked != tuned).any()


@pytest.mark.slow
def test_byzantine_clients_and_the_median_of_each_model_agree_with_the_oracle():
    attack = maxfl.attacks.byzantine(0.34, update_scale=-2.0)
    options = {"aggregator": maxfl.aggregators.median(), "attack": attack, "seed": 7}
    history = trained(maxfl.fedavg(), **options)
    method = Method(patience=1, is_median=True)
    rounds = Run(history, method, 3, update_scale=-2.0, seed=7).follow()
    assert any(round_.has_twins_apart for round_ in rounds), "a model should start anew"
    assert max(round_.trained.count(j) for round_ in rounds for j in range(3)) == 3
    attack = maxfl.attacks.byzantine(0.34, noise_std=0.1, loss_inflation=1.0)
    noisy = trained(maxfl.fedavg(), **options | {"attack": attack})
    leaves = jax.tree.leaves((noisy.params, noisy.evaluation))
    assert all(np.isfinite(leaf).all() for leaf in leaves)


# ----------------------------------------------------------------------------- sweeps and devices


@pytest.fixture(scope="module")
def sweep():
    """One, two and three models side by side."""
    return trained(models=(1, 2, 3), seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 2, 3])
def test_a_configuration_of_a_sweep_is_as_when_it_runs_alone(sweep, models):
    configuration = models - 1
    alone = trained(models=models, seed=7)
    assert_same_run(sweep, alone, configuration, ("picked",) if models > 1 else ())
    assert_same_models(sweep, alone, models, configuration)
    assert sweep.evaluation.picked[configuration].max() == configuration


@pytest.mark.slow
@pytest.mark.parametrize("models", [2, 3])
def test_a_configuration_of_a_sweep_agrees_with_the_oracle(sweep, models):
    Run(sweep, BY_APPEAL, models, seed=7, configuration=models - 1).follow()


@pytest.mark.slow
def test_one_model_is_no_portfolio(sweep):
    arguments_of_one = arguments(seed=7)
    del arguments_of_one["portfolio"]
    plain = small.train(**arguments_of_one)
    assert_same_run(sweep, plain, names=())
    assert_same_models(sweep, plain, 1)


@pytest.mark.slow
def test_the_number_of_devices_does_not_matter():
    two, one = trained(seed=7), trained(seed=7, devices=small.one_device())
    assert_same_run(two, one)
    assert_same_models(two, one, 3)
    np.testing.assert_array_equal(two.cohorts.model, one.cohorts.model)


# ----------------------------------------------------------------------------- streams, resuming


@pytest.mark.slow
def test_a_stream_trains_the_same_models():
    in_memory = trained(seed=7)
    streamed = maxfl.stream(
        small.SMALL, small.MODEL, **arguments(seed=7), eval_clients=100,
        requirement=maxfl.solo(1.2, steps=5, **small.PAPER),
    )  # fmt: skip
    assert_same_run(streamed.history, in_memory)
    assert_same_models(streamed.history, in_memory, 3)
    np.testing.assert_array_equal(streamed.cohorts.model, in_memory.cohorts.model)


def test_cut_off_it_goes_on_bit_for_bit(tmp_path):
    """After seven rounds; the counts of idle rounds go on too."""

    def simulation():
        return small.simulation(**arguments(seed=7))

    whole = maxfl.run(simulation(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        maxfl.run(simulation(), tmp_path / "cut", progress=resumable.stop_after(2))
    resumed = maxfl.run(simulation(), tmp_path / "cut", resume=True)
    assert resumable.results(resumed) == resumable.results(whole)
    (entry,) = json.loads((tmp_path / "cut/summary.json").read_text())["configurations"]
    picked = pq.read_table(tmp_path / "cut/history.parquet")["picked_model"].to_numpy()
    assert [one["clients"] for one in entry["portfolio"]["seen"]] == (
        np.bincount(picked[-8:-2], minlength=3).tolist()
    )
    assert sum(one["satisfied"] for one in entry["portfolio"]["seen"]) == round(
        6 * entry["seen"]["gm_appeal"]["test"]
    )
    trained = pq.read_table(tmp_path / "cut/rounds.parquet")["trained_model"].to_numpy()
    assert set(trained) <= {0, 1, 2}
    assert "There are 3 models" in (tmp_path / "cut/model-card.md").read_text()


# ----------------------------------------------------------------------------- refusals


KEPT = maxfl.Model(
    lambda key: batch_norm.init(key, FEATURES, CLASSES), batch_norm.apply, keep_local=True
)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": maxfl.scaffold()}, "scaffold keeps something at the server"),
        ({"models": 7}, r"portfolio\.models = 7, but the federation has only 6 seen clients"),
        ({"models": (1, 7)}, r"portfolio\.models = 7, but the federation has only 6 seen clients"),
        ({"model": KEPT}, "keep_local: a client that keeps the model's state would need one for"),
    ],
)
def test_what_can_not_have_several_models_is_refused(options, words):
    with pytest.raises(maxfl.InputError, match=words):
        small.simulation(**arguments(**{"models": 2, **options}))


@pytest.mark.parametrize("options", [{"algorithm": maxfl.scaffold()}, {"model": KEPT}])
def test_one_model_is_refused_to_nobody(options):
    small.simulation(**arguments(**{"models": 1, **options}))
