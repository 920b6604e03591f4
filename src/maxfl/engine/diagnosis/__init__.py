"""What goes wrong in a run without an error, said while it goes on and at its end."""
