"""MaxFL in real federations, on Flower: a strategy for the server and mods for its clients.

Here belongs whatever speaks Flower's messages: ``MaxFL`` (the server), ``appeal_mod`` and
``secure_mod`` (any client), with what stands behind them in ``client``; ``Privacy``, the folder
that a federation leaves behind, and Flower's processes on one machine. What a client weighs and
how the server steps are those of the simulation and belong to ``core`` and ``algorithms``; tables
and folders in general, to ``runs``; pages, to ``report``. What the server alone needs is loaded
when first asked for: clients need no JAX.
"""

from typing import TYPE_CHECKING, Any

from maxfl.flower.appeal_mod import appeal_mod
from maxfl.flower.client.control_variate import correction
from maxfl.flower.client.requirement_store import RequirementStore
from maxfl.flower.secagg_mod import secure_mod

if TYPE_CHECKING:
    from maxfl.flower.privacy import Privacy
    from maxfl.flower.server.offers import split_models
    from maxfl.flower.strategy import MaxFL
else:

    def __getattr__(name: str) -> Any:
        if name == "MaxFL":
            from maxfl.flower.strategy import MaxFL

            return MaxFL
        if name == "Privacy":
            from maxfl.flower.privacy import Privacy

            return Privacy
        if name == "split_models":
            from maxfl.flower.server.offers import split_models

            return split_models
        raise AttributeError(f"maxfl.flower has no {name}")


__all__ = [
    "MaxFL", "Privacy", "RequirementStore", "appeal_mod", "correction", "secure_mod",
    "split_models",
]  # fmt: skip
