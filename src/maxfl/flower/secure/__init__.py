"""What sums that nobody can check one by one stand on: bounds, noise, and slots for models."""
