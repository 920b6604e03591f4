"""The paper's tables and figures: declared, run, and shown beside what it prints.

What only the reproduction of Cho et al., TMLR 2024, needs belongs here: its settings, its printed
figures, our reference runs, and, in ``theory``, its appendix. Algorithms, data sets, runs and
sweeps do not: studies are made of those that everybody uses. How tables look in the terminal
belongs to ``cli``.
"""
