"""How many days will a patient stay? Regression on hospitals of unequal size that differ.

The data are made up: log-normal sizes, patients of other ages and illnesses in every hospital, and
a third of the hospitals (rehabilitation) keep emergencies short and the old long, unlike others.

Nothing is chosen here: both methods at their defaults, at three learning rates. A rate also changes
what hospitals can do alone, and so what they require; compare methods within a column.
Run it with:  python examples/regression_hospitals.py       (about a minute on two cores)
"""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl

HOSPITALS, UNSEEN = 60, 20
rng = np.random.default_rng(0)


def hospital(k):
    """Return a hospital's patients: age, illness, emergency, blood pressure; and their days."""
    patients = int(np.clip(rng.lognormal(4.0, 0.8), 20, 600))
    age = rng.normal(rng.normal(62, 8), 12, patients).clip(18, 99)
    illness = rng.gamma(2.0, rng.uniform(0.6, 1.4), patients)
    emergency = rng.random(patients) < rng.uniform(0.1, 0.7)
    pressure = rng.normal(130, 15, patients)
    x = np.stack([(age - 62) / 15, illness - 2, emergency - 0.4, (pressure - 130) / 15], axis=1)
    slope = (3.0, 1.0, -3.0, 0.2) if k % 3 == 0 else (0.8, 1.5, 3.0, 0.2)
    days = (
        7 + x @ np.add(slope, rng.normal(0, 0.2, 4)) + rng.standard_t(3, patients)
    )  # some outliers
    return x, days.clip(0.5)


def halves(x, days):
    """Split a hospital's patients into training and test data, 60:40."""
    cut = round(0.6 * len(days))
    return (x[:cut], days[:cut]), (x[cut:], days[cut:])


def init(key):
    """Draw a network with 16 hidden units; it begins with the usual stay of a week."""
    a, b = jax.random.split(key)
    return {
        "hidden": jax.random.normal(a, (4, 16)) / 2, "bias": jnp.zeros(16),
        "out": jax.random.normal(b, (16,)) / 4, "days": jnp.full((), 7.0),
    }  # fmt: skip


def apply(params, x, key=None):
    """Tell the days."""
    return jnp.tanh(x @ params["hidden"] + params["bias"]) @ params["out"] + params["days"]


train, test = zip(*(halves(*hospital(k)) for k in range(HOSPITALS)), strict=True)
federation = maxfl.Federation.from_clients(train, test, unseen=UNSEEN)
model = maxfl.Model(init, apply, loss=maxfl.losses.huber(delta=2.0))  # outliers count linearly
RATES, SEEDS = (0.01, 0.03, 0.1), (0, 1, 2)
pairs = [(rate, seed) for rate in RATES for seed in SEEDS]  # one sweep, one compiled program
rates, seeds = map(np.array, zip(*pairs, strict=True))
training = maxfl.Training(
    rounds=60, cohort=8, local_steps=10, batch_size=16, local_lr=rates, evaluate_every=20
)


def show(what, by_run):
    """Print the mean over seeds of a figure, for each rate."""
    print(f"  {what:42}" + "".join(f"{v:8.2f}" for v in by_run.reshape(len(RATES), -1).mean(1)))


sizes = federation.train_sizes
print(f"{HOSPITALS - UNSEEN} hospitals train with {sizes.min()} to {sizes.max()} patients each")
print(f"  {'learning rate':42}" + "".join(f"{rate:8}" for rate in RATES))
for method in (maxfl.fedavg(), maxfl.maxfl()):
    history = maxfl.simulate(federation, model, method, training, seed=seeds)
    print(method.name)
    for group in ("seen", "unseen"):
        show(f"GM-Appeal, {group}", history.gm_appeal(group)[:, -1])
        show(f"mean absolute error, days, {group}", history.test_metric(group)[:, -1])
        show(f"… of preferred models, {group}", history.preferred_metric(group)[:, -1])
