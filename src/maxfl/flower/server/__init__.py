"""The server's side of every method: which there are, what travels, and the step.

methods: the algorithms that sums can express, and what each asks of clients
instructions: what clients are told in a round
travel: which arrays of a model travel, and what SCAFFOLD sends beside them
step: the new model, of a round's sums
"""
