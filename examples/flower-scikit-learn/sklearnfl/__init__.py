"""A linear classifier of scikit-learn on Flower."""
