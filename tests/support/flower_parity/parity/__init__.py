"""The federation of a simulation."""
