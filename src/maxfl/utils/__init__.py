"""Helpers that know nothing of federated learning: errors, files, paths, dicts, disk space."""
