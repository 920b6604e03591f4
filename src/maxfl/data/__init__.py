"""Data sets, and ways to split them over clients."""
