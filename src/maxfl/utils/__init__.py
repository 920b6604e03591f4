"""Helpers that know nothing of federated learning: errors, files, paths, dicts, disk and memory.

What belongs here would be of use in any program, and imports nothing else of this package.
"""
