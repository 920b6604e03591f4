"""Several processes that run one simulation (jax.distributed).

Here: how they meet (``rendezvous``), what they tell each other (``processes``), and how one that is
gone is missed (``liveness``). Which client's work lies on which device is the engine's business.
"""
