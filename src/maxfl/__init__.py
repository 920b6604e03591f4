"""Federated learning that keeps its clients: the public names."""

from maxfl import appeal
from maxfl.algorithms import ALGORITHMS, Algorithm, fedavg, maxfl
from maxfl.data.flwr_partitions import from_flwr_datasets
from maxfl.errors import InputError
from maxfl.federation import Decoding, Federation, Samples
from maxfl.history import History
from maxfl.layout import use_all_cores
from maxfl.model import Model, mlp
from maxfl.participation import decline, everyone, opt_out
from maxfl.requirement import custom, fixed, solo
from maxfl.runs import run
from maxfl.simulation import Simulation, Training, simulate

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
    "appeal",
    "custom",
    "decline",
    "everyone",
    "fedavg",
    "fixed",
    "from_flwr_datasets",
    "maxfl",
    "mlp",
    "opt_out",
    "run",
    "simulate",
    "solo",
    "use_all_cores",
]
