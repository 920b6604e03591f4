"""From written tables to a page, figures, tables for papers and model cards.

Here: reading folders of results, also those of older versions, and showing what is in them. A
report reads files alone: nothing here knows the engine, and what runs write is decided in ``runs``.
"""
