"""A federation for whoever answers for it: watched while it runs, and looked into afterwards.

Here belongs what an operator sees and does beside the training: models of past rounds, going back
to one of them and on for more rounds, metrics for Prometheus and for trackers, the table of
weights, and what is said where a federation stalls. Nothing here changes a step; what clients and
server compute belongs to ``maxfl.flower`` itself.
"""
