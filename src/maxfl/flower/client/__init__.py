"""What stands behind ``appeal_mod`` on a client: how it measures, and what it keeps.

Here belongs what runs on a node beside the app: loss and requirement of a client, the files in
which it keeps its requirement from run to run, digests of its data, judging by an app's own
handlers, and picking one of several models. The mods themselves are in ``maxfl.flower``; what the
server does is not here. Nothing here imports JAX, but for ``solo_description``, which is of clients
in JAX.
"""
