"""Model cards: what a model is, whom it serves, and whom it does not."""
