"""What a user's model must be like, found out before it is trained."""
