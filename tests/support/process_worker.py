"""One of several processes: joins the others and runs what the tests compare."""

import os
import sys
from pathlib import Path

import jax
import numpy as np

import maxfl
from maxfl.utils.files import to_named
from support.federations import make_clients

TRAINING = maxfl.Training(
    rounds=6, cohort=5, local_steps=3, batch_size=4, local_lr=0.2, evaluate_every=2, block=2
)


def federation():
    """Eight clients of unequal size, two of them unseen."""
    sizes = [5, 1, 40, 17, 8, 30, 12, 9]
    return maxfl.Federation.from_clients(
        make_clients(sizes), make_clients(sizes[::-1], 1), unseen=2
    )


def one(**options):
    """One configuration: its clients are spread over the processes, and must be summed."""
    return _simulate(maxfl.maxfl(), participation=maxfl.opt_out(3), **options)


def sweep(**options):
    """Three configurations, which are spread over the processes and never meet."""
    return _simulate(maxfl.maxfl([0.5, 1.0, 2.0]), participation=maxfl.opt_out(3), **options)


def pair(**options):
    """Two configurations: with four devices, two for each."""
    return _simulate(maxfl.maxfl([0.5, 1.0]), seed=[3, 4], **options)


def memory(**options):
    """Clients that keep something, a server with momentum, tuned models, liars."""
    liars = maxfl.attacks.byzantine(0.2, noise=0.1)
    return _simulate(
        maxfl.ditto(0.1),
        optimiser=maxfl.server_optimizers.adam(),
        tuning=2,
        adversary=liars,
        **options,
    )


def _simulate(algorithm, **options):
    model = maxfl.mlp(4, (6, 5), 3, dropout=0.4)
    options = {"requirement": maxfl.solo(1.5, 10), **options}
    return maxfl.simulate(federation(), model, algorithm, TRAINING, **options)


def write(history, path):
    """Everything in a history, by name."""
    np.savez(path, **to_named(history))


def main(port, processes, process, folder, *cases):
    """Run some cases as process ``process``, and write what it was told of their histories."""
    jax.config.update("jax_num_cpu_devices", int(os.environ["JAX_NUM_CPU_DEVICES"]))
    if int(processes) > 1:
        maxfl.join(f"127.0.0.1:{port}", int(processes), int(process), timeout=60)
    for case in cases:
        write(globals()[case](), Path(folder) / f"{case}-{process}.npz")
    print(len(jax.devices()), "devices")


if __name__ == "__main__":
    main(*sys.argv[1:])
