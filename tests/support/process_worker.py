"""One of several processes: joins the others and runs what the tests compare."""

import os
import sys
from pathlib import Path

import jax
import numpy as np

import maxfl
from maxfl.utils.tensors import to_named
from support.small import DROPOUT_MODEL, SMALL

TRAINING = maxfl.Training(
    rounds=6,
    cohort=5,
    local_steps=3,
    batch_size=4,
    local_lr=0.2,
    evaluate_every=2,
    checkpoint_every=2,
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
    """Clients that keep something, a server with momentum, fine-tuned models, Byzantine clients."""
    return _simulate(
        maxfl.ditto(0.1),
        server_optimizer=maxfl.server_optimizers.adam(),
        finetune_steps=2,
        attack=maxfl.attacks.byzantine(0.2, noise_std=0.1),
        **options,
    )


def _simulate(algorithm, **options):
    options = {"requirement": maxfl.solo(1.5, 10), **options}
    return maxfl.simulate(SMALL, DROPOUT_MODEL, algorithm, TRAINING, **options)


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
