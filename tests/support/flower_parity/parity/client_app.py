"""A client that trains as the simulation does."""

from maxfl.flower.jax_client import Local, client_app
from parity import setting

app = client_app(
    Local(setting.federation(), setting.MODEL, setting.TRAINING, setting.SEED),
    setting.REQUIREMENT,
)
