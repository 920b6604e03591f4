"""What a user's model and samples must be like, found out before anything is trained."""
