"""Federated learning that keeps its clients; ``maxfl.public`` lists the public names.

They are loaded when first asked for: a client of a real federation needs the weight and a mod, not
JAX and the simulation.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxfl.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        try:
            return getattr(import_module(f"{__name__}.public"), name)
        except AttributeError:
            raise AttributeError(f"maxfl has no {name}; see dir(maxfl)") from None

    def __dir__() -> list[str]:
        return list(import_module(f"{__name__}.public").__all__)
