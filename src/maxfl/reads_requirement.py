"""Whether a method looks at what clients require."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.algorithms.contract import Algorithm, Client, Cohort, Server, Total, Work
from maxfl.participation import Rule


def reads_requirement(algorithm: Algorithm, hyper: Any, params: Any, rule: Rule) -> bool:
    """Whether training depends on ρ_k at all; FedAvg's does not, and then nobody trains alone.

    A client with a loss of 1 is tried with a requirement that is met, and one that is not.
    """
    if rule is not Rule.EVERYONE:
        return True

    def all_of_it(rho: Any) -> Any:
        own = jax.tree.map(lambda a: a[0], hyper)
        server, one = Server(params, algorithm.init(params, 1)), jnp.float32(1)
        client = Client(jnp.int32(0), jnp.int32(1), one, one, rho)
        work = Work(lambda w, *_: w, 1, one)
        weight = algorithm.weight(own, server, client)
        update, kept = algorithm.local(own, server, algorithm.memory(params), client, work)
        cohort = Cohort(*(jnp.asarray(a)[None] for a in (0, True, one, rho, weight)))
        return kept, algorithm.server(own, server, Total(update, weight), cohort)

    # Met exactly too: far from it a weight may have vanished on both sides.
    far, *others = (
        jax.tree.leaves(jax.jit(all_of_it)(jnp.float32(rho))) for rho in (0.5, 1.0, 3.0)
    )
    pairs = (zip(far, other, strict=True) for other in others)
    return not all(np.array_equal(a, b) for pair in pairs for a, b in pair)
