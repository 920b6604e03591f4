"""The public names, which ``maxfl`` gives out one by one."""

from maxfl import adversary, appeal, optimisers, robust
from maxfl.algorithms import (
    ALGORITHMS,
    Algorithm,
    afl,
    ditto,
    fedavg,
    fedprox,
    maxfl,
    maxfl_annealed,
    maxfl_exponential,
    maxfl_log,
    maxfl_relu,
    mwfed,
    perfedavg,
    perfedavg_hf,
    pfedme,
    qffl,
    scaffold,
    scaffold_1,
)
from maxfl.data.flwr_partitions import from_flwr_datasets
from maxfl.errors import InputError
from maxfl.federation import Decoding, Federation, Samples
from maxfl.history import History
from maxfl.layout import use_all_cores
from maxfl.meeting import join
from maxfl.model import Model, mlp
from maxfl.participation import decline, everyone, opt_out
from maxfl.plan import Training
from maxfl.precision import with_precision
from maxfl.requirement import custom, fixed, solo
from maxfl.runs import run
from maxfl.simulation import Simulation, simulate

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Decoding",
    "Federation",
    "History",
    "InputError",
    "Model",
    "Samples",
    "Simulation",
    "Training",
    "adversary",
    "afl",
    "appeal",
    "custom",
    "decline",
    "ditto",
    "everyone",
    "fedavg",
    "fedprox",
    "fixed",
    "from_flwr_datasets",
    "join",
    "maxfl",
    "maxfl_annealed",
    "maxfl_exponential",
    "maxfl_log",
    "maxfl_relu",
    "mlp",
    "mwfed",
    "opt_out",
    "optimisers",
    "perfedavg",
    "perfedavg_hf",
    "pfedme",
    "qffl",
    "robust",
    "run",
    "scaffold",
    "scaffold_1",
    "simulate",
    "solo",
    "use_all_cores",
    "with_precision",
]
