"""Federations larger than memory."""
