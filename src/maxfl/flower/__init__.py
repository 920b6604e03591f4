"""MaxFL on Flower: ``MaxFL``, a strategy for the server, and ``appeal_mod``, a mod for any client.

The strategy is loaded when first asked for: clients need no JAX.
"""

from typing import TYPE_CHECKING, Any

from maxfl.flower.client import appeal_mod

if TYPE_CHECKING:
    from maxfl.flower.strategy import MaxFL
else:

    def __getattr__(name: str) -> Any:
        if name == "MaxFL":
            from maxfl.flower.strategy import MaxFL

            return MaxFL
        raise AttributeError(f"maxfl.flower has no {name}")


__all__ = ["MaxFL", "appeal_mod"]
