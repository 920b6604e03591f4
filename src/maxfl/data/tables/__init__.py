"""Tables of users: files and data frames, and what their columns mean."""
