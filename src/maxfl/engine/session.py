"""What is compiled in for a plan, laid out on devices."""

import numpy as np
from numpy.typing import ArrayLike

from maxfl.engine.experiment import Plan
from maxfl.engine.layout import Layout
from maxfl.engine.spec import SoloSpec, Spec


def specs(plan: Plan, here: Layout, alone: Layout) -> tuple[Spec, SoloSpec]:
    """Those of the rounds, and of clients that train alone."""
    _, model, algorithm, training, _, participation, optimiser, robust, adversary, tuning, _ = plan
    largest = int(np.max(training.batch_size))
    masks = bool(np.min(training.batch_size) < largest)
    rounds = Spec(
        model=model,
        algorithm=algorithm._replace(hyper=None),
        rule=participation.rule,
        optimiser=optimiser.kind,
        robust=robust.rule,
        clips=robust.clips,
        attack=adversary.active,
        flip_labels=adversary.flip_labels,
        collude=adversary.collude,
        tunes=bool(np.any(np.asarray(tuning) > 0)),
        classes=plan.federation.classes,
        seen=plan.federation.seen,
        cohort=training.cohort,
        local_steps=compiled_steps(training.local_steps, here.mesh.devices.flat[0].platform),
        batch_size=largest,
        masks=masks,
        period=min(training.evaluate_every, training.rounds),
        layout=here,
    )
    return rounds, SoloSpec(model, largest, masks, plan.requirement.steps, alone)


def compiled_steps(local_steps: ArrayLike, platform: str) -> int | None:
    """τ, if it is worth a program of its own.

    An accelerator asks the host after every step of a loop whether to go on, and where every
    configuration has its own τ, keeps those that are done by copying them. A CPU loses nothing by
    a τ that is known at run time only, and compiles once for all.
    """
    steps = set(np.ravel(local_steps).tolist())
    return steps.pop() if len(steps) == 1 and platform != "cpu" else None
