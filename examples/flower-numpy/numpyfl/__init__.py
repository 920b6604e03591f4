"""Softmax regression in NumPy on Flower."""
