"""Data sets, ways to split them over clients, and statistics of a federation.

Here: where data sets come from (``registry``, ``locate``, ``download``), one module for each of
them, and from samples to clients (``partition``, ``assemble``). What a federation is, and its files
on disk, is ``core``'s; which data a configuration means, ``runs``' (``build_data``).
"""
