"""The paper's appendix as code: mean estimation with two and three clients, and convergence.

Each module makes a ``Finding``: a sentence, a table, numbers and a figure. Weight, objective and
surrogates are those that train models, from ``core``, and are not written again here; experiments
on data sets belong to ``maxfl.paper``.
"""
