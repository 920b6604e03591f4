"""A client: trains and judges as those of a simulation do."""

from jaxfl import task
from maxfl.flower.jax_client import Local, client_app

local = Local(task.federation(), task.MODEL, task.TRAINING, task.SEED)
app = client_app(local, task.REQUIREMENT)
