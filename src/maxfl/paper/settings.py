"""Methods, data and search grids of the paper, with the settings that it leaves open.

Section "Experiments" and appendix "Experiment Details" of Cho et al., "Maximizing Global Model
Appeal in Federated Learning", TMLR 2024. What is run with them is in ``catalogue``.
"""

from maxfl.paper.declare import Method, Settings

RATES = (0.1, 0.05, 0.01, 0.005, 0.001)
WORK: dict[str, tuple[int, ...]] = {
    "training.batch_size": (32, 64, 128),
    "training.local_steps": (10, 30, 50),
}
GRID = {"training.local_lr": RATES, **WORK}
"""The paper's grid: η_l η_g, b and τ, with η_g = 1."""
SERVER_GRID = {"training.server_lr": (1.0, 2.0, 10.0, 20.0), **WORK}
"""The paper's grid for a fixed η_l, and so for a fixed requirement: with η_l = 0.005, the products
η_l η_g are 0.005, 0.01, 0.05 and 0.1."""

FEDAVG = Method("FedAvg", {"algorithm.name": "fedavg"})
FEDPROX = Method("FedProx", {"algorithm.name": "fedprox"})
SCAFFOLD = Method("SCAFFOLD", {"algorithm.name": "scaffold"})
PERFEDAVG = Method("Per-FedAvg", {"algorithm.name": "perfedavg"})
PFEDME = Method("pFedMe", {"algorithm.name": "pfedme"})
QFFL = Method("q-FFL", {"algorithm.name": "qffl"})
QFFL_1 = Method("q-FFL, q = 1", {"algorithm.name": "qffl", "algorithm.q": 1.0})
QFFL_10 = Method("q-FFL, q = 10", {"algorithm.name": "qffl", "algorithm.q": 10.0})
MWFED = Method("MW-Fed", {"algorithm.name": "mwfed"})
MAXFL = Method("MaxFL", {"algorithm.name": "maxfl"})
ANNEALED = Method(
    "MaxFL, annealed (ours)", {"algorithm.name": "maxfl-annealed"}, rounds_key="algorithm.rounds"
)

PROTOCOL: Settings = {
    "requirement.judge": "training",
    "requirement.local_lr": "training",
    "requirement.batch_size": "training",
}
"""The paper's: clients judge by training loss, and their solo models move with the search."""
IMAGES: Settings = {
    **PROTOCOL,
    "model.hidden": [64, 30],
    "training.rounds": 200,
    "requirement.steps": 100,
}
FMNIST: Settings = {
    **IMAGES,
    "data.source": "fashion-mnist",
    "data.clients": 100,
    "data.unseen": 100,
    "data.samples": 200,
    "data.partition": "dirichlet",
    "data.alpha": 0.5,
    "training.cohort": 5,
}
EMNIST: Settings = {
    **IMAGES,
    "data.source": "emnist-byclass",
    "data.part": "test",
    "data.clients": 500,
    "data.unseen": 500,
    "data.samples": 60,
    "data.partition": "dirichlet",
    "data.alpha": 0.05,
    "training.cohort": 10,
}
CLUSTERS: Settings = {
    **FMNIST,
    "data.partition": "clusters",
    "data.clusters": 5,
    "data.samples": 300,
    "training.local_lr": 0.005,
}
TWEETS: Settings = {
    **PROTOCOL,
    "data.source": "sent140-stand-in",
    "data.vectors": "glove.6B.100d.top50k",
    "data.clients": 162,
    "data.unseen": 325,
    "data.samples": 50,
    "data.partition": "dirichlet",
    "data.alpha": 0.5,
    "model.hidden": [128, 86, 30],
    "training.rounds": 200,
    "training.cohort": 10,
    "training.local_lr": 0.05,
    "requirement.steps": 100,
}
SYNTHETIC: Settings = {
    **PROTOCOL,
    "data.source": "synthetic",
    "data.partition": "by-owner",
    "data.clients": 100,
    "data.unseen": 100,
    "model.hidden": [64, 30],
    "training.rounds": 200,
    "training.cohort": 5,
    "training.local_lr": 0.005,
}
PAPER_EMNIST: Settings = {"data.part": "both"}
PAPER_TWEETS: Settings = {
    "data.source": "sent140",
    "data.vectors": "glove.6B.200d",
    "data.partition": "by-owner",
    "data.min_samples": 50,
    "data.unseen": 619,
}
EMNIST_PART = "EMNIST: only the publisher's test images, 116,323 of 814,255."
STAND_IN = (
    "STAND-IN for Sent140: 487 made-up users of 50 real tweets each and 100-d vectors; the paper "
    "has 927 real users and 200-d vectors."
)
OPT_OUT: Settings = {"participation.rule": "opt-out", "participation.start_round": 10}
BYZANTINE: Settings = {"attack.loss_inflation": 20.0, "attack.noise_std": 0.1}
FINETUNING: Settings = {"personalization.finetune_steps": 5}

TYPICAL: Settings = {
    "training.local_lr": 0.01, "training.batch_size": 32, "training.local_steps": 30,
}  # fmt: skip
TYPICAL_EMNIST: Settings = TYPICAL | {"training.local_lr": 0.1, "training.local_steps": 50}
TYPICAL_SERVER: Settings = {
    "training.server_lr": 10.0, "training.batch_size": 32, "training.local_steps": 10,
}  # fmt: skip
TYPICAL_TWEETS: Settings = TYPICAL_SERVER | {"training.server_lr": 1.0}
