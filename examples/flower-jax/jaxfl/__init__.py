"""A small network in JAX on Flower."""
