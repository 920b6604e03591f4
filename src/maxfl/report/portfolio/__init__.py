"""How many models a federation needs, and what the clients of each have in common."""
