"""The methods, one file each, by name. A new one is a file beside these and a line here.

A file says what its method changes of FedAvg (``core.algorithm`` is the contract), with citation
and formula; docs/new-algorithm.md walks through it. How rounds are run belongs to ``engine``.
"""

from collections.abc import Callable

from maxfl.algorithms.afl import afl
from maxfl.algorithms.ditto import ditto
from maxfl.algorithms.fedavg import fedavg
from maxfl.algorithms.fedprox import fedprox
from maxfl.algorithms.hypcluster import hypcluster
from maxfl.algorithms.ifca import ifca
from maxfl.algorithms.maxfl import maxfl
from maxfl.algorithms.maxfl_annealed import maxfl_annealed
from maxfl.algorithms.maxfl_auto import maxfl_auto
from maxfl.algorithms.maxfl_surrogates import maxfl_exponential, maxfl_log, maxfl_relu
from maxfl.algorithms.mwfed import mwfed
from maxfl.algorithms.perfedavg import perfedavg, perfedavg_hf
from maxfl.algorithms.pfedme import pfedme
from maxfl.algorithms.qffl import qffl
from maxfl.algorithms.scaffold import scaffold, scaffold_1
from maxfl.core.algorithm import Algorithm

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "maxfl": maxfl,
    "maxfl-auto": maxfl_auto,
    "maxfl-annealed": maxfl_annealed,
    "maxfl-relu": maxfl_relu,
    "maxfl-log": maxfl_log,
    "maxfl-exponential": maxfl_exponential,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "scaffold-1": scaffold_1,
    "perfedavg": perfedavg,
    "perfedavg-hf": perfedavg_hf,
    "qffl": qffl,
    "afl": afl,
    "mwfed": mwfed,
    "pfedme": pfedme,
    "ditto": ditto,
    "ifca": ifca,
    "hypcluster": hypcluster,
}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "afl",
    "ditto",
    "fedavg",
    "fedprox",
    "hypcluster",
    "ifca",
    "maxfl",
    "maxfl_annealed",
    "maxfl_auto",
    "maxfl_exponential",
    "maxfl_log",
    "maxfl_relu",
    "mwfed",
    "perfedavg",
    "perfedavg_hf",
    "pfedme",
    "qffl",
    "scaffold",
    "scaffold_1",
]
