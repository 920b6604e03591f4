"""LEAF's data sets by user: its JSON files (``files``), and one module for each data set.

Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018; github.com/TalwalkarLab/leaf.
"""
