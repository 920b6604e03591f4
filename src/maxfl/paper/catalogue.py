"""The paper's exhibits, every one, and the settings that it leaves open.

Section "Experiments" and appendix "Experiment Details" of Cho et al., "Maximizing Global Model
Appeal in Federated Learning", TMLR 2024. docs/reproduction.md says what was found.
"""

from maxfl.paper.common import COMMON_EXHIBITS
from maxfl.paper.declare import Column, Exhibit, Metric, Part, Settings, Study
from maxfl.paper.portfolio import PORTFOLIO_EXHIBITS
from maxfl.paper.settings import (
    ANNEALED,
    BYZANTINE,
    CLUSTERS,
    EMNIST,
    EMNIST_PART,
    FEDAVG,
    FEDPROX,
    FINETUNING,
    FMNIST,
    GRID,
    MAXFL,
    MWFED,
    OPT_OUT,
    PAPER_EMNIST,
    PAPER_TWEETS,
    PERFEDAVG,
    PFEDME,
    QFFL,
    QFFL_1,
    QFFL_10,
    SCAFFOLD,
    SERVER_GRID,
    STAND_IN,
    SYNTHETIC,
    TWEETS,
    TYPICAL,
    TYPICAL_EMNIST,
    TYPICAL_SERVER,
    TYPICAL_TWEETS,
)


def _maxfl(**hparams: float) -> Settings:
    """Return hyper-parameters of MaxFL, which other methods leave behind."""
    return {"algorithm.name": "maxfl"} | {f"algorithm.{n}": v for n, v in hparams.items()}


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


IMAGE_PARTS = (
    Part("FMNIST", FMNIST, TYPICAL),
    Part("EMNIST", EMNIST, TYPICAL_EMNIST, EMNIST_PART, PAPER_EMNIST),
)
CLUSTER_PARTS = (
    Part("FMNIST", CLUSTERS, TYPICAL_SERVER),
    Part("Sent140", TWEETS, TYPICAL_TWEETS, STAND_IN, PAPER_TWEETS),
)

OPT_OUT_STUDY = Study(
    "opt-out",
    tuple(part._replace(settings=part.settings | OPT_OUT) for part in IMAGE_PARTS),
    (FEDAVG, FEDPROX, SCAFFOLD, PERFEDAVG, QFFL, MWFED, MAXFL, ANNEALED),
    GRID,
    "test_accuracy",
)
FLIPPED_STUDY = OPT_OUT_STUDY._replace(
    name="flipped",
    parts=tuple(
        part._replace(
            label="FMNIST, 30 % flipped", settings=part.settings | {"data.flipped_fraction": 0.3}
        )
        for part in OPT_OUT_STUDY.parts[:1]
    ),
)
LARGER_STEPS_STUDY = Study(
    "larger-steps",
    tuple(
        part._replace(
            settings=part.settings
            | {"training.local_lr": 0.001, "training.batch_size": 32, "training.local_steps": 50},
            typical={"training.server_lr": 10.0},
        )
        for part in OPT_OUT_STUDY.parts[1:]
    ),
    (FEDAVG, MAXFL, ANNEALED),
    {"training.server_lr": (1.0, 5.0, 10.0, 50.0, 100.0)},
    "test_accuracy",
)
"""Where only η_l = 0.001 keeps clients, η_g lets the server go faster; the products η_l η_g are the
paper's."""
FEW_STUDY = Study(
    "few",
    (
        Part(
            "FMNIST",
            {**FMNIST, **OPT_OUT, "training.cohort": 3, "participation.start_round": 5},
            TYPICAL,
        ),
    ),
    (FEDAVG, FEDPROX, SCAFFOLD, PERFEDAVG, PFEDME, MWFED, QFFL, MAXFL, ANNEALED),
    GRID,
    "test_accuracy",
)
BYZANTINE_STUDY = Study(
    "byzantine",
    tuple(
        part._replace(
            label=f"{part.label}, {_percent(fraction)} Byzantine",
            settings=part.settings | OPT_OUT | BYZANTINE | {"attack.fraction": fraction},
        )
        for part in IMAGE_PARTS
        for fraction in (0.1, 0.05)
    ),
    (MWFED, MAXFL, ANNEALED),
    GRID,
    "test_accuracy",
)
CLUSTERS_STUDY = Study(
    "clusters",
    CLUSTER_PARTS,
    (FEDAVG, FEDPROX, SCAFFOLD, MWFED, QFFL_1, QFFL_10, MAXFL, ANNEALED),
    SERVER_GRID,
    "gm_appeal",
)
FINETUNED_STUDY = Study(
    "finetuned",
    tuple(part._replace(settings=part.settings | FINETUNING) for part in CLUSTER_PARTS),
    (FEDAVG, FEDPROX, SCAFFOLD, PERFEDAVG, MWFED, MAXFL, ANNEALED),
    SERVER_GRID,
    "gm_appeal",
    "personal",
)
REQUIREMENT_STUDY = Study(
    "requirement",
    tuple(
        Part(f"FMNIST, {steps} solo steps", CLUSTERS | {"requirement.steps": steps}, TYPICAL_SERVER)
        for steps in (50, 100, 150)
    ),
    (FEDAVG, FEDPROX, MAXFL, ANNEALED),
    SERVER_GRID,
    "gm_appeal",
)
SYNTHETIC_STUDY = Study(
    "synthetic",
    tuple(
        Part(
            f"{_percent(fraction)} training data",
            SYNTHETIC | {"data.train_fraction": fraction},
            TYPICAL_SERVER,
        )
        for fraction in (0.4, 0.8)
    ),
    (FEDAVG, FEDPROX, MAXFL, ANNEALED),
    SERVER_GRID,
    "gm_appeal",
)

SLOW = ("dropout 0.2", "100 samples a client", "30 % flipped, shifted")
"""Between others, or like them, with further programs to compile: not for ``quick``."""
SENSITIVITY_STUDY = Study(
    "sensitivity",
    tuple(
        Part(label, CLUSTERS | TYPICAL_SERVER | changes, {}, quick=label not in SLOW)
        for label, changes in {
            "as declared": {},
            **{f"ε = {e}": _maxfl(epsilon=e) for e in (1e-4, 0.1, 1.0)},
            **{f"temperature {t}": _maxfl(temperature=t) for t in (3.0, 0.3, 0.1)},
            **{f"η_l = {r}": {"training.local_lr": r} for r in (0.1, 0.05, 0.01, 0.001)},
            **{f"η_g = {r}": {"training.server_lr": r} for r in (1.0, 2.0)},
            **{f"τ = {s}": {"training.local_steps": s} for s in (30, 50)},
            "b = 128": {"training.batch_size": 128},
            "m = 20": {"training.cohort": 20},
            **{f"dropout {d}": {"model.dropout": d} for d in (0.0, 0.2)},
            **{f"{n} samples a client": {"data.samples": n} for n in (50, 100)},
            "30 % flipped, reversed": {"data.flipped_fraction": 0.3, "data.flip": "reverse"},
            "30 % flipped, shifted": {"data.flipped_fraction": 0.3, "data.flip": "shift"},
        }.items()
    ),
    (FEDAVG, MAXFL, ANNEALED),
    {},
    "gm_appeal",
)


def _columns(
    study: Study, clients: tuple[str, ...], metrics: tuple[Metric, ...]
) -> tuple[Column, ...]:
    """Return every combination, part after part."""
    return tuple(
        Column(part.label, group, metric, study.model)
        for part in study.parts
        for group in clients
        for metric in metrics
    )


BOTH, SEEN, UNSEEN = ("seen", "unseen"), ("seen",), ("unseen",)
CLUSTER_METHODS = ("FedAvg", "FedProx", "SCAFFOLD", "MW-Fed", "MaxFL", "MaxFL, annealed (ours)")

EXHIBITS = {
    exhibit.name: exhibit
    for exhibit in (
        *COMMON_EXHIBITS,
        *PORTFOLIO_EXHIBITS,
        Exhibit(
            "tab:testacc", "clients may leave after 10 rounds: accuracy and GM-Appeal",
            OPT_OUT_STUDY, _columns(OPT_OUT_STUDY, BOTH, ("test_accuracy", "gm_appeal")),
        ),
        Exhibit(
            "fig:moti", "FMNIST, clients may leave after 10 rounds: both over the rounds",
            OPT_OUT_STUDY,
            tuple(
                Column("FMNIST", clients, metric)
                for metric in ("gm_appeal", "test_accuracy")
                for clients in BOTH
            ),
            is_figure=True,
        ),
        Exhibit(
            "tab:testacc2", "3 clients a round, who may leave after 5 (a comment in its source)",
            FEW_STUDY, _columns(FEW_STUDY, BOTH, ("test_accuracy", "gm_appeal")),
        ),
        Exhibit(
            "tab:byz", "5 % and 10 % of the clients are Byzantine",
            BYZANTINE_STUDY, _columns(BYZANTINE_STUDY, BOTH, ("test_accuracy", "gm_appeal")),
        ),
        Exhibit(
            "fig:dnn", "clusters: GM-Appeal, preferred-model and test accuracy over rounds",
            CLUSTERS_STUDY,
            _columns(CLUSTERS_STUDY, SEEN, ("gm_appeal", "preferred_accuracy", "test_accuracy")),
            CLUSTER_METHODS, is_figure=True,
        ),
        Exhibit(
            "tab:unseen", "clusters: GM-Appeal and preferred-model accuracy of unseen clients",
            CLUSTERS_STUDY, _columns(CLUSTERS_STUDY, UNSEEN, ("gm_appeal", "preferred_accuracy")),
            CLUSTER_METHODS,
        ),
        Exhibit(
            "tab:qfflseen", "clusters: against q-FFL, a fair method",
            CLUSTERS_STUDY, _columns(CLUSTERS_STUDY, SEEN, ("gm_appeal", "preferred_accuracy")),
            ("q-FFL, q = 1", "q-FFL, q = 10", "MaxFL", "MaxFL, annealed (ours)"),
        ),
        Exhibit(
            "fig:abl", "clusters: test against training loss over rounds",
            CLUSTERS_STUDY, _columns(CLUSTERS_STUDY, SEEN, ("judging_loss", "test_loss")),
            ("MaxFL",), is_figure=True,
        ),
        Exhibit(
            "tab:local", "clusters: GM-Appeal after 5 fine-tuning steps",
            FINETUNED_STUDY, _columns(FINETUNED_STUDY, BOTH, ("gm_appeal",)),
        ),
        Exhibit(
            "tab:localPRA", "clusters: preferred-model accuracy after 5 fine-tuning steps",
            FINETUNED_STUDY, _columns(FINETUNED_STUDY, BOTH, ("preferred_accuracy",)),
        ),
        Exhibit(
            "tab:localiter", "clusters: requirements from 50, 100 and 150 solo steps",
            REQUIREMENT_STUDY,
            _columns(REQUIREMENT_STUDY, SEEN, ("gm_appeal", "preferred_accuracy")),
        ),
        Exhibit(
            "fig:syn", "synthetic data, 40 % and 80 % for training (a comment in its source)",
            SYNTHETIC_STUDY,
            _columns(SYNTHETIC_STUDY, SEEN, ("gm_appeal", "preferred_accuracy")),
            is_figure=True,
        ),
        Exhibit(
            "flipped", "ours: tab:testacc with 30 % of the clients' labels flipped, FMNIST",
            FLIPPED_STUDY, _columns(FLIPPED_STUDY, BOTH, ("test_accuracy", "gm_appeal")),
        ),
        Exhibit(
            "larger-steps", "ours: tab:testacc's EMNIST at η_l = 0.001 with larger server steps",
            LARGER_STEPS_STUDY,
            _columns(LARGER_STEPS_STUDY, BOTH, ("test_accuracy", "gm_appeal")),
        ),
        Exhibit(
            "sensitivity", "ours: how GM-Appeal moves with what the paper leaves open (clusters)",
            SENSITIVITY_STUDY, _columns(SENSITIVITY_STUDY, SEEN, ("gm_appeal",)), layout="parts",
        ),
    )
}  # fmt: skip
"""Exhibits by their names in the paper's source."""
