"""Federations larger than memory: a cohort at a time is read from disk.

What the rounds compute is the same as in memory and stays in ``engine``; the files of a federation
are ``core.federation_files``.
"""
