"""The server's side of every method: which there are, what travels, and the step.

methods: the algorithms that sums can express, and what each asks of clients
description: what an operator chose, as plain data
instructions: what clients are told in a round
travel: which arrays of a model travel, and what SCAFFOLD sends beside them
offers: which models of a portfolio a node is sent
portfolio: what the server knows of several models, and which of them starts anew
step: the new model, of a round's sums
"""
