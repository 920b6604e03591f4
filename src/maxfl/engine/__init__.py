"""What trains a federation: compiled rounds, devices, and the loop around them.

``simulation`` is for data in memory, ``streaming`` for data on disk; both are a ``trainer``.
Methods (``algorithms``) and data sets (``data``) are given to the engine, which knows none by name.
Folders, checkpoints and TOML files belong to ``runs``.
"""
