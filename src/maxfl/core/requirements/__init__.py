"""What clients demand of the global model: how it is said, and the losses that follow from it."""
