"""Federated learning that keeps its clients.

The public names are listed here, by the module that defines them, and loaded when first asked for:
a client of a real federation needs the weight and a mod, not JAX and the simulation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxfl import data as data
    from maxfl import flower as flower
    from maxfl.algorithms import ALGORITHMS as ALGORITHMS
    from maxfl.algorithms import afl as afl
    from maxfl.algorithms import ditto as ditto
    from maxfl.algorithms import fedavg as fedavg
    from maxfl.algorithms import fedprox as fedprox
    from maxfl.algorithms import hypcluster as hypcluster
    from maxfl.algorithms import ifca as ifca
    from maxfl.algorithms import maxfl as maxfl
    from maxfl.algorithms import maxfl_annealed as maxfl_annealed
    from maxfl.algorithms import maxfl_auto as maxfl_auto
    from maxfl.algorithms import maxfl_exponential as maxfl_exponential
    from maxfl.algorithms import maxfl_log as maxfl_log
    from maxfl.algorithms import maxfl_relu as maxfl_relu
    from maxfl.algorithms import mwfed as mwfed
    from maxfl.algorithms import perfedavg as perfedavg
    from maxfl.algorithms import perfedavg_hf as perfedavg_hf
    from maxfl.algorithms import pfedme as pfedme
    from maxfl.algorithms import qffl as qffl
    from maxfl.algorithms import scaffold as scaffold
    from maxfl.algorithms import scaffold_1 as scaffold_1
    from maxfl.core import aggregators as aggregators
    from maxfl.core import appeal as appeal
    from maxfl.core import attacks as attacks
    from maxfl.core import local_optimizers as local_optimizers
    from maxfl.core import losses as losses
    from maxfl.core import metrics as metrics
    from maxfl.core import schedules as schedules
    from maxfl.core import server_optimizers as server_optimizers
    from maxfl.core.algorithm import Algorithm as Algorithm
    from maxfl.core.federation import Federation as Federation
    from maxfl.core.federation import InputScaling as InputScaling
    from maxfl.core.federation import Samples as Samples
    from maxfl.core.federation_files import ThreeParts as ThreeParts
    from maxfl.core.federation_files import open_federation as open_federation
    from maxfl.core.federation_files import write_federation as write_federation
    from maxfl.core.metrics import Metric as Metric
    from maxfl.core.model import Model as Model
    from maxfl.core.model import Variables as Variables
    from maxfl.core.model import count_parameters as count_parameters
    from maxfl.core.model import with_precision as with_precision
    from maxfl.core.participation import decline as decline
    from maxfl.core.participation import everyone as everyone
    from maxfl.core.participation import opt_out as opt_out
    from maxfl.core.portfolio import portfolio as portfolio
    from maxfl.core.requirements.requirement import custom as custom
    from maxfl.core.requirements.requirement import fixed as fixed
    from maxfl.core.requirements.requirement import metric as metric
    from maxfl.core.requirements.requirement import per_client as per_client
    from maxfl.core.requirements.requirement import solo as solo
    from maxfl.data import partition as partition
    from maxfl.data.flower_datasets import from_flwr_datasets as from_flwr_datasets
    from maxfl.data.tables.requirements import requirement_file as requirement_file
    from maxfl.distributed.rendezvous import join as join
    from maxfl.engine.experiment import Training as Training
    from maxfl.engine.history import History as History
    from maxfl.engine.layout import use_all_cores as use_all_cores
    from maxfl.engine.simulation import Simulation as Simulation
    from maxfl.engine.simulation import simulate as simulate
    from maxfl.engine.solo import SoloCache as SoloCache
    from maxfl.engine.streaming.simulation import StreamingSimulation as StreamingSimulation
    from maxfl.engine.streaming.stream import stream as stream
    from maxfl.models.cnn import cnn as cnn
    from maxfl.models.fast_convolutions import fast_convolutions as fast_convolutions
    from maxfl.models.libraries.equinox import from_equinox as from_equinox
    from maxfl.models.libraries.flax import from_flax as from_flax
    from maxfl.models.libraries.nnx import from_nnx as from_nnx
    from maxfl.models.logistic import logistic as logistic
    from maxfl.models.lora import lora as lora
    from maxfl.models.lora import merge_lora as merge_lora
    from maxfl.models.lstm import lstm as lstm
    from maxfl.models.mlp import mlp as mlp
    from maxfl.models.resnet import resnet as resnet
    from maxfl.models.transformer import transformer as transformer
    from maxfl.report.write import write_report as write_report
    from maxfl.runs.inline import report as report
    from maxfl.runs.paired import compare as compare
    from maxfl.runs.run import run as run
    from maxfl.runs.tables import Labels as Labels
    from maxfl.runs.trackers import tracker as tracker
    from maxfl.utils.errors import InputError as InputError
    from maxfl.utils.errors import SpeedWarning as SpeedWarning
    from maxfl.utils.errors import TrainingWarning as TrainingWarning

_PUBLIC = {
    "algorithms": (
        "ALGORITHMS", "afl", "ditto", "fedavg", "fedprox", "hypcluster", "ifca", "maxfl",
        "maxfl_annealed", "maxfl_auto", "maxfl_exponential", "maxfl_log", "maxfl_relu", "mwfed",
        "perfedavg", "perfedavg_hf", "pfedme", "qffl", "scaffold", "scaffold_1",
    ),
    "core.algorithm": ("Algorithm",),
    "core.federation": ("Federation", "InputScaling", "Samples"),
    "core.federation_files": ("ThreeParts", "open_federation", "write_federation"),
    "core.metrics": ("Metric",),
    "core.model": ("Model", "Variables", "count_parameters", "with_precision"),
    "core.participation": ("decline", "everyone", "opt_out"),
    "core.portfolio": ("portfolio",),
    "core.requirements.requirement": ("custom", "fixed", "metric", "per_client", "solo"),
    "data.flower_datasets": ("from_flwr_datasets",),
    "data.tables.requirements": ("requirement_file",),
    "distributed.rendezvous": ("join",),
    "engine.experiment": ("Training",),
    "engine.history": ("History",),
    "engine.layout": ("use_all_cores",),
    "engine.simulation": ("Simulation", "simulate"),
    "engine.solo": ("SoloCache",),
    "engine.streaming.simulation": ("StreamingSimulation",),
    "engine.streaming.stream": ("stream",),
    "models.cnn": ("cnn",),
    "models.fast_convolutions": ("fast_convolutions",),
    "models.libraries.equinox": ("from_equinox",),
    "models.libraries.flax": ("from_flax",),
    "models.libraries.nnx": ("from_nnx",),
    "models.logistic": ("logistic",),
    "models.lora": ("lora", "merge_lora"),
    "models.lstm": ("lstm",),
    "models.mlp": ("mlp",),
    "models.resnet": ("resnet",),
    "models.transformer": ("transformer",),
    "report.write": ("write_report",),
    "runs.paired": ("compare",),
    "runs.run": ("run",),
    "runs.tables": ("Labels",),
    "runs.trackers": ("tracker",),
    "utils.errors": ("InputError", "SpeedWarning", "TrainingWarning"),
}  # fmt: skip
_NAMESPACES = {
    "aggregators": "core.aggregators",
    "appeal": "core.appeal",
    "attacks": "core.attacks",
    "data": "data",
    "flower": "flower",
    "local_optimizers": "core.local_optimizers",
    "losses": "core.losses",
    "metrics": "core.metrics",
    "partition": "data.partition",
    "report": "report",
    "schedules": "core.schedules",
    "server_optimizers": "core.server_optimizers",
}
_RENAMED = {
    "adversary": "attacks",
    "optimisers": "server_optimizers",
    "robust": "aggregators",
}
"""Names of version 0.1, and what they are called now."""
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted([*_HOME, *_NAMESPACES])


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return import_module(f"{__name__}.{_NAMESPACES[name]}")
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _RENAMED:
        raise AttributeError(f"maxfl.{name} is called maxfl.{_RENAMED[name]} now")
    from maxfl.utils.errors import did_you_mean

    raise AttributeError(f"maxfl has no {name}; see dir(maxfl){did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
