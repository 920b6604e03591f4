"""Too little disk or memory, made on purpose."""

import resource
from contextlib import contextmanager

import jax
import jax.numpy as jnp

CACHED = "jax_persistent_cache_min_compile_time_secs"


@contextmanager
def largest_file(size):
    """Let the system refuse larger files, as a full disk does."""
    before, cached = resource.getrlimit(resource.RLIMIT_FSIZE), getattr(jax.config, CACHED)
    jax.config.update(CACHED, 1e9)  # the cache of compiled programs has larger files
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        jax.config.update(CACHED, cached)


def out_of_memory(stage, *_):
    """Ask JAX for more than any machine has; a progress callback."""
    if stage == "rounds":
        jnp.zeros(1 << 44).block_until_ready()
