"""MaxFL on Flower: a strategy for the server, a mod for any client."""

from maxfl.flower.client import appeal_mod
from maxfl.flower.strategy import MaxFL

__all__ = ["MaxFL", "appeal_mod"]
