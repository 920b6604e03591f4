"""Studies of ours: several global models beside IFCA and HypCluster, and beside personal models.

One requirement for all methods, judged by data held out from training, steps that shrink alike and
the same points of the search: as in ``common``. Nobody leaves. docs/portfolio.md shows them.
"""

from maxfl.paper.common import AUTO, COMMON_STUDY, FLIPPED, held_out_part
from maxfl.paper.declare import Column, Exhibit, Method, Metric, Settings, Study
from maxfl.paper.settings import (
    CLUSTERS,
    EMNIST,
    EMNIST_PART,
    FEDAVG,
    FMNIST,
    PAPER_EMNIST,
    PAPER_TWEETS,
    STAND_IN,
    TWEETS,
)

SIZES = (2, 3, 5)
"""Models of a portfolio."""
FINETUNE_STEPS = 10
TEN_CLIENTS: Settings = {"training.cohort": 10}
UNEQUAL: Settings = {
    "data.part": "test", "data.partition": "dirichlet-unequal", "data.min_samples": 20,
}  # fmt: skip
"""Where HypCluster, which weighs clients by their samples, is another method than IFCA."""


PARTS = (
    held_out_part("clusters", CLUSTERS, 0.01, TEN_CLIENTS),
    held_out_part("skewed: 30 % flipped", FMNIST, 0.05, TEN_CLIENTS, FLIPPED),
    held_out_part("skewed: nobody flipped", FMNIST, 0.05, TEN_CLIENTS),
    held_out_part("unequal sizes: 30 % flipped", FMNIST, 0.05, TEN_CLIENTS, FLIPPED, UNEQUAL),
    held_out_part("EMNIST", EMNIST, 0.05, note=EMNIST_PART, paper=PAPER_EMNIST),
    held_out_part("tweets", TWEETS, 0.05, note=STAND_IN, paper=PAPER_TWEETS),
)


def _sizes(method: Method) -> tuple[Method, ...]:
    """Return portfolios of a method, of every size."""
    return tuple(
        Method(f"{method.label}, {k} models", {**method.settings, "portfolio.models": k})
        for k in SIZES
    )


IFCA = Method("IFCA", {"algorithm.name": "ifca"})
HYPCLUSTER = Method("HypCluster", {"algorithm.name": "hypcluster"})
FINETUNED = Method(
    "FedAvg, fine-tuned",
    {**FEDAVG.settings, "personalization.finetune_steps": FINETUNE_STEPS},
)
FINETUNED_AUTO = Method(
    "MaxFL auto, fine-tuned",
    {**AUTO.settings, "personalization.finetune_steps": FINETUNE_STEPS},
)
DITTO = Method("Ditto", {"algorithm.name": "ditto"})
PORTFOLIO_STUDY = Study(
    "portfolio",
    PARTS,
    (FEDAVG, *_sizes(IFCA), *_sizes(HYPCLUSTER), AUTO, *_sizes(AUTO)),
    COMMON_STUDY.grid,
    "gm_appeal_judging",
    seeds=10,
    search_seeds=COMMON_STUDY.search_seeds,
    evaluate_every=50,
    baseline=FEDAVG.label,
)
PERSONAL_STUDY = PORTFOLIO_STUDY._replace(
    name="portfolio-personal",
    parts=tuple(part for part in PARTS if part.group != "unequal sizes"),
    methods=(FINETUNED, FINETUNED_AUTO, DITTO),
    model="personal",
    baseline=FINETUNED.label,
)
"""The other way out: every client has a model of its own."""


def _columns(study: Study, metric: Metric = "gm_appeal") -> tuple[Column, ...]:
    return tuple(Column(part.label, "unseen", metric, study.model) for part in study.parts)


PORTFOLIO_EXHIBITS = (
    Exhibit(
        "portfolio", "ours: several global models: GM-Appeal of unseen clients",
        PORTFOLIO_STUDY, _columns(PORTFOLIO_STUDY), layout="sizes",
    ),
    Exhibit(
        "portfolio-accuracy", "ours: several global models: test accuracy of unseen clients",
        PORTFOLIO_STUDY, _columns(PORTFOLIO_STUDY, "test_accuracy"), layout="sizes",
    ),
    Exhibit(
        "portfolio-personal", "ours: personal models beside portfolios: GM-Appeal",
        PERSONAL_STUDY, _columns(PERSONAL_STUDY), layout="leads",
    ),
)  # fmt: skip
