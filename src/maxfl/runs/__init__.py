"""From a configuration to results in a folder: TOML, runs, sweeps, checkpoints, tables, progress.

What a round computes belongs to ``engine``; what is made from written tables, to ``report``; what a
person types and sees in the terminal, to ``cli``.
"""
