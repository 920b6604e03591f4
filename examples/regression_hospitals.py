"""How many days will a patient stay? Regression on hospitals of unequal size that differ.

The data are made up: log-normal sizes, patients of other ages and illnesses in every hospital, and
a third of the hospitals (rehabilitation) keep emergencies short and the old long, unlike others.

Nothing is chosen here: both methods at their defaults, at three learning rates. Each of ten seeds
draws other patients and trains anew, both methods on the same. A rate also changes what hospitals
can do alone, and so what they require: compare methods within a column.
Run it with:  python examples/regression_hospitals.py       (half a minute on two cores)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import maxfl

HOSPITALS, UNSEEN, SEEDS = 60, 20, 10
RATES = (0.01, 0.03, 0.1)  # one sweep, one compiled program
# The same for all seeds, since another shape of the data would be compiled anew.
PATIENTS = np.random.default_rng(0).lognormal(4.0, 0.8, HOSPITALS).clip(20, 600).astype(int)


def hospital(rng, k):
    """Return a hospital's patients: age, illness, emergency, blood pressure; and their days."""
    patients = PATIENTS[k]
    age = rng.normal(rng.normal(62, 8), 12, patients).clip(18, 99)
    illness = rng.gamma(2.0, rng.uniform(0.6, 1.4), patients)
    emergency = rng.random(patients) < rng.uniform(0.1, 0.7)
    pressure = rng.normal(130, 15, patients)
    x = np.stack([(age - 62) / 15, illness - 2, emergency - 0.4, (pressure - 130) / 15], axis=1)
    slope = (3.0, 1.0, -3.0, 0.2) if k % 3 == 0 else (0.8, 1.5, 3.0, 0.2)
    noise = rng.standard_t(3, patients)  # with some outliers
    return x, (7 + x @ np.add(slope, rng.normal(0, 0.2, 4)) + noise).clip(0.5)


def halves(x, days):
    """Split a hospital's patients into training and test data, 60:40."""
    cut = round(0.6 * len(days))
    return (x[:cut], days[:cut]), (x[cut:], days[cut:])


def draw_federation(seed):
    """Draw the patients of all hospitals."""
    rng = np.random.default_rng(seed)
    train, test = zip(*(halves(*hospital(rng, k)) for k in range(HOSPITALS)), strict=True)
    return maxfl.Federation.from_clients(train, test, unseen=UNSEEN)


def init(key):
    """Draw a network with 16 hidden units; it begins with the usual stay of a week."""
    a, b = jax.random.split(key)
    return {
        "hidden": jax.random.normal(a, (4, 16)) / 2, "bias": jnp.zeros(16),
        "out": jax.random.normal(b, (16,)) / 4, "days": jnp.full((), 7.0),
    }  # fmt: skip


def apply(params, x, key=None):
    """Predict the days."""
    return jnp.tanh(x @ params["hidden"] + params["bias"]) @ params["out"] + params["days"]


MODEL = maxfl.Model(init, apply, loss=maxfl.losses.huber(delta=2.0))  # outliers count linearly
TRAINING = maxfl.Training(
    rounds=60, cohort=8, local_steps=10, batch_size=16, local_lr=np.array(RATES), evaluate_every=20
)


class Figures(NamedTuple):
    """What a run reaches for hospitals that did not train, at each learning rate."""

    appeal: np.ndarray
    error: np.ndarray
    preferred: np.ndarray


def run(federation, method, seed):
    """Train at all rates."""
    history = maxfl.simulate(federation, MODEL, method, TRAINING, seed=seed)
    figures = (history.gm_appeal, history.test_metric, history.preferred_metric)
    return Figures(*(figure("unseen")[:, -1] for figure in figures))


def show(what, by_seed):
    """Print mean and 95 % interval (Student's t) over seeds, for each rate; [SEEDS, rates]."""
    half = 2.262 * np.std(by_seed, axis=0, ddof=1) / np.sqrt(SEEDS)
    cells = (f"{f'{m:.2f} ± {h:.2f}':>14}" for m, h in zip(np.mean(by_seed, 0), half, strict=True))
    print(f"{what:44}" + "".join(cells))


if __name__ == "__main__":
    methods = (maxfl.fedavg(), maxfl.maxfl())
    federations = [draw_federation(seed) for seed in range(SEEDS)]
    print(f"{HOSPITALS - UNSEEN} hospitals train, {UNSEEN} others look at the model")
    print(f"{'learning rate':44}" + "".join(f"{rate:14}" for rate in RATES))
    appeal = []
    for method in methods:
        runs = [run(data, method, seed) for seed, data in enumerate(federations)]
        appeal.append(np.array([figures.appeal for figures in runs]))
        show(f"{method.name}: GM-Appeal", appeal[-1])
        show("  mean absolute error, days", [figures.error for figures in runs])
        show("  … of preferred models", [figures.preferred for figures in runs])
    show("GM-Appeal, maxfl less fedavg, paired", appeal[1] - appeal[0])
