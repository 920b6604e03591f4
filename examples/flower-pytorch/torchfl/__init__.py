"""A small network in PyTorch on Flower."""
