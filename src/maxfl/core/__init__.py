"""What a federation is made of."""
