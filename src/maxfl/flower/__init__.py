"""MaxFL on Flower: ``MaxFL``, a strategy for the server, and mods for any client.

``appeal_mod`` makes a ClientApp a client of MaxFL; ``secure_mod`` goes before it where the server
is to see sums alone, and ``Privacy`` says so to the strategy. What is the server's is loaded when
first asked for: clients need no JAX.
"""

from typing import TYPE_CHECKING, Any

from maxfl.flower.appeal_mod import appeal_mod
from maxfl.flower.secagg_mod import secure_mod

if TYPE_CHECKING:
    from maxfl.flower.privacy import Privacy
    from maxfl.flower.strategy import MaxFL
else:

    def __getattr__(name: str) -> Any:
        if name == "MaxFL":
            from maxfl.flower.strategy import MaxFL

            return MaxFL
        if name == "Privacy":
            from maxfl.flower.privacy import Privacy

            return Privacy
        raise AttributeError(f"maxfl.flower has no {name}")


__all__ = ["MaxFL", "Privacy", "appeal_mod", "secure_mod"]
