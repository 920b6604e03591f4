"""A federation: softmax regression in NumPy, trained with MaxFL on Flower."""
