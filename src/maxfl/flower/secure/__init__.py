"""What sums that nobody can check one by one stand on: bounds of honest ones, and secret noise."""
