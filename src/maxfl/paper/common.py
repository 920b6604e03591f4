"""Studies of ours: one requirement for all methods, judged by data held out from training.

In the paper's protocol solo models are trained with the run's own η_l and b, so that a search also
chooses what clients demand, and clients judge by training loss, where a solo model that has learnt
its samples by heart can't be beaten. Here the requirement stands still, clients judge by data that
nobody trains on, and steps shrink alike in every method.
"""

from maxfl.paper.declare import Column, Exhibit, Method, Metric, Part, Settings, Study
from maxfl.paper.settings import (
    CLUSTERS,
    EMNIST,
    EMNIST_PART,
    FEDAVG,
    FEDPROX,
    FMNIST,
    MWFED,
    OPT_OUT,
    PAPER_EMNIST,
    PAPER_TWEETS,
    PERFEDAVG,
    QFFL,
    SCAFFOLD,
    STAND_IN,
    SYNTHETIC,
    TWEETS,
)

AUTO = Method("MaxFL auto", {"algorithm.name": "maxfl-auto"})
FALLING = Method(
    "MaxFL, T from 3 to 0.3",
    {
        "algorithm.name": "maxfl-annealed", "algorithm.start": 3.0, "algorithm.temperature": 0.3,
        "algorithm.rounds": 50, "algorithm.epsilon": 0.1, "algorithm.cooling": 0.0,
    },
)  # fmt: skip
"""Its own cooling is off: the schedule of the server shrinks the steps, as in every method."""
FIXED = tuple(
    Method(
        f"MaxFL, T = {t:g}",
        {"algorithm.name": "maxfl", "algorithm.temperature": t, "algorithm.epsilon": 0.1},
    )
    for t in (1.0, 0.3, 3.0)
)

JUDGED: Settings = {
    "requirement.judge": "held-out",
    "requirement.steps": 100,
    "requirement.batch_size": 32,
    "schedule.server": "exponential",
    "schedule.server_end": 0.18,
    "training.local_steps": 10,
    "training.batch_size": 32,
}
"""For all methods: what clients judge by, how solo models are trained, and how steps shrink."""
RATES: Settings = {"training.local_lr": 0.05, "training.server_lr": 1.0}
FLIP = "data.flipped_fraction"
NEVER: Settings = OPT_OUT | {"participation.start_round": 1_000_000}
"""Nobody leaves, by the rule of those who may: so both are one program."""
LEAVING: dict[str, Settings] = {"leave after 10": OPT_OUT, "never leave": NEVER}
FLIPPED: Settings = {FLIP: 0.3}


def held_out_part(
    label: str,
    base: Settings,
    solo_rate: float,
    *others: Settings,
    note: str = "",
    paper: Settings | None = None,
) -> Part:
    """Return a part in which clients judge by held-out data, with solo models of one rate."""
    settings = {**base, **JUDGED, "requirement.local_lr": solo_rate}
    for other in others:
        settings |= other
    # η_l is the search's, not the one that the paper's protocol fixes.
    settings.pop("training.local_lr", None)
    return Part(label, settings, RATES, note, paper or {})


PARTS = (
    *(held_out_part(f"clusters: solo rate {rate}", CLUSTERS, rate) for rate in (0.005, 0.01, 0.05)),
    *(
        held_out_part(f"skewed: {flipped}{name}", FMNIST, 0.05, leaving, change)
        for flipped, change in {"": {}, "30 % flipped, ": FLIPPED}.items()
        for name, leaving in LEAVING.items()
    ),
    *(
        held_out_part(
            f"EMNIST: solo rate {rate}, {name}", EMNIST, rate, leaving,
            note=EMNIST_PART, paper=PAPER_EMNIST,
        )
        for rate in (0.01, 0.05)
        for name, leaving in LEAVING.items()
    ),
    *(
        held_out_part(f"tweets: {name}", TWEETS, 0.05, leaving, note=STAND_IN, paper=PAPER_TWEETS)
        for name, leaving in LEAVING.items()
    ),
    *(
        held_out_part(
            f"synthetic: {name}", SYNTHETIC, 0.001, leaving, {"data.synthetic_samples": 200}
        )
        for name, leaving in LEAVING.items()
    ),
)  # fmt: skip

COMMON_STUDY = Study(
    "common",
    PARTS,
    (FEDAVG, FEDPROX, SCAFFOLD, PERFEDAVG, QFFL, MWFED, *FIXED, FALLING, AUTO),
    {"training.local_lr": (0.1, 0.05, 0.01), "training.server_lr": (1.0, 3.0)},
    "gm_appeal_judging",
    seeds=10,
    search_seeds=(100, 101, 102, 103, 104),
    evaluate_every=20,
    baseline=FEDAVG.label,
)

CONFLICTING = (0.0, 0.1, 0.2, 0.3, 0.4)
MULTIPLES = (2.0, 1.5, 1.2, 1.0, 0.8)
WHEN_STUDY = Study(
    "when",
    tuple(
        held_out_part(
            f"{100 * fraction:.0f} % in conflict: ρ = {multiple:g} × solo", FMNIST, 0.05, NEVER,
            {FLIP: fraction, "requirement.multiple": multiple},
        )
        for fraction in CONFLICTING
        for multiple in MULTIPLES
    ),
    (FEDAVG, AUTO),
    {},
    "gm_appeal_judging",
    seeds=10,
    evaluate_every=100,
    baseline=FEDAVG.label,
)  # fmt: skip
"""Nobody leaves, so that every cell has a model of 200 rounds: where all clients may go and go, it
would be one of ten rounds, whatever the method."""


def _columns(
    study: Study, metrics: tuple[Metric, ...] = ("gm_appeal",), clients: str = "unseen"
) -> tuple[Column, ...]:
    """Return every part's metrics, of one group of clients."""
    return tuple(Column(part.label, clients, metric) for part in study.parts for metric in metrics)


COMMON_EXHIBITS = (
    Exhibit(
        "common", "ours: all methods with one requirement, judged by held-out data: GM-Appeal",
        COMMON_STUDY, _columns(COMMON_STUDY), is_figure=True, layout="leads",
    ),
    Exhibit(
        "common-best", "ours: common, MaxFL auto beside the best of FedAvg and MaxFL at other T",
        COMMON_STUDY, _columns(COMMON_STUDY),
        (FEDAVG.label, *(method.label for method in FIXED), FALLING.label, AUTO.label),
        layout="best",
    ),
    Exhibit(
        "common-seen", "ours: common, GM-Appeal and test accuracy of seen clients",
        COMMON_STUDY, _columns(COMMON_STUDY, ("gm_appeal", "test_accuracy"), "seen"),
        layout="leads",
    ),
    Exhibit(
        "common-accuracy", "ours: common, test accuracy of unseen clients",
        COMMON_STUDY, _columns(COMMON_STUDY, ("test_accuracy",)), layout="leads",
    ),
    Exhibit(
        "when", "ours: when MaxFL is ahead: conflicting clients, and what they demand",
        WHEN_STUDY, _columns(WHEN_STUDY), is_figure=True, layout="phases",
        axes=("clients whose labels contradict the others'", "loss ρ that clients demand"),
    ),
)  # fmt: skip
