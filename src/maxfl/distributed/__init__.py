"""Several processes that run one simulation (jax.distributed)."""
