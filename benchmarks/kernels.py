"""Kernels beside XLA on a GPU: microseconds of a layer with its gradients, and how exact both are.

    python benchmarks/kernels.py [FILE.json]

Layers of the models of benchmarks/models.py, of 10 and 100 clients with weights of their own, 20
samples each, products of both in TF32. An error is the root mean square of differences from float32
in the value or a gradient, in parts of that of the numbers themselves, the largest of them (where
maxima are taken, rounding makes others the largest, and gradients go elsewhere);
`keeps_nan`: with a NaN in one sample, those with NaN in their value are those of XLA. Writes
benchmarks/results/kernels-gpu.json or the file given. Needs what benchmarks/models.py needs.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from origin import origin

from maxfl.models.attention import mix
from maxfl.models.convolution import convolution_layer, convolve
from maxfl.models.layers import Layer
from maxfl.models.normalisation import Scaling, group_norm_relu, layer_norm_beside

FILE = Path(__file__).parent / "results/kernels-gpu.json"
COHORTS, SAMPLES, REPEATS, TURNS = (10, 100), 20, 20, 5
PRECISIONS = {"xla": "tensorfloat32", "float32": "float32"}
"""What XLA does by default on such a GPU, but named, which turns kernels off; and to compare."""
WAYS = ("kernels", "xla")
Function = Callable[..., Any]


class Case(NamedTuple):
    """A layer as a function of a client's arrays, whose shapes follow, and the value's last."""

    label: str
    layer: Function
    shapes: tuple[tuple[int, ...], ...]
    value: tuple[int, ...]


def cases() -> Iterator[Case]:
    """List layers: the CNN's second, the ResNet's first and last, and the transformer's."""

    def pooled(x: Array, weight: Array, bias: Array) -> Array:
        return convolution_layer(Layer(weight, bias), x, "valid")

    def normalised(scale: Array, shift: Array, h: Array, shortcut: Array) -> Array:
        return group_norm_relu(Scaling(scale, shift), h, 8, shortcut)

    def added(scale: Array, shift: Array, h: Array) -> Array:
        return sum(layer_norm_beside(Scaling(scale, shift), h))

    side, inputs, outputs = 13, 32, 64
    x, w = (SAMPLES, side, side, inputs), (3, 3, inputs, outputs)
    after = (side - 2) // 2
    label = f"convolution, pooling, ReLU: {inputs} to {outputs} channels"
    yield Case(label, pooled, (x, w, (outputs,)), (SAMPLES, after, after, outputs))
    for side, channels in ((32, 16), (8, 64)):
        x, w = (SAMPLES, side, side, channels), (3, 3, channels, channels)
        yield Case(f"convolution: {channels} channels", convolve, (x, w), x)
        shapes = (channels,), (channels,), x, x
        yield Case(f"normalisation, shortcut, ReLU: {channels} channels", normalised, shapes, x)
    for width in (128, 512):
        shapes = (width,), (width,), (SAMPLES, 80, width)
        yield Case(f"layer normalisation: {width} features", added, shapes, shapes[-1])
    for length, heads, features in ((80, 4, 32), (128, 4, 32)):
        width, label = heads * features, f"attention: {length} positions, {features} features"
        shapes = ((SAMPLES, length, 3 * width),)
        yield Case(label, partial(mix, heads=heads), shapes, (SAMPLES, length, width))


def main() -> None:
    """Compile all at the same time, then measure one after another, print and write."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    known, ways = list(cases()), ("float32", *WAYS)
    repeats = {
        (case, clients, way): repeated(case, clients, way)
        for case in known
        for clients in COHORTS
        for way in WAYS
    }
    once = {(case, way): lowered(case, 2, way) for case in known for way in ways}
    with ThreadPoolExecutor() as pool:
        timed_programs = dict(zip(repeats, pool.map(compiled, repeats.values()), strict=True))
        programs = dict(zip(once, pool.map(compiled, once.values()), strict=True))
    device, rows = jax.devices()[0].device_kind, []
    for case in known:
        us = {
            clients: {
                way: timed(timed_programs[case, clients, way], drawn(case, clients)) for way in WAYS
            }
            for clients in COHORTS
        }
        exact = exactness(case, {way: programs[case, way] for way in ways})
        rows.append({"layer": case.label, "us": us} | exact)
        print(rows[-1], flush=True)
        found = {"device": device, "jax": jax.__version__, "samples": SAMPLES} | origin()
        file.write_text(json.dumps(found | {"layers": rows}, indent=1) + "\n")


def compiled(program: Any) -> Any:
    """Compile what was lowered."""
    return program.compile()


def value_and_gradients(case: Case, *arguments: Array) -> tuple[Array, ...]:
    """Compute all clients' values and gradients; the last argument is the gradient of the value."""
    value, back = jax.vjp(jax.vmap(case.layer), *arguments[:-1])
    return value, *back(arguments[-1])


def in_way(way: str, function: Function) -> Function:
    """Return the function as it is computed by the kernels, by XLA, or by XLA in float32."""

    def computed(*arguments: Array) -> Any:
        if way == "kernels":
            return function(*arguments)
        with jax.default_matmul_precision(PRECISIONS[way]):
            return function(*arguments)

    return computed


def lowered(case: Case, clients: int, way: str) -> Any:
    """Return a lowered program that computes a layer once."""
    compute = in_way(way, partial(value_and_gradients, case))
    return jax.jit(compute).lower(*drawn(case, clients))


def repeated(case: Case, clients: int, way: str) -> Any:
    """Return a lowered program that computes a layer many times."""
    compute = in_way(way, partial(value_and_gradients, case))
    return jax.jit(repeating(compute)).lower(*drawn(case, clients))


def repeating(compute: Function) -> Function:
    """Return the function that computes another many times, each after the last."""

    def run(*arguments: Array) -> Array:
        def step(_: int, number: Array) -> Array:
            # Barriers: no step begins before the last has ended, and nothing of it is left out.
            found = compute(*jax.lax.optimization_barrier((arguments, number))[0])
            leaves = jax.tree.leaves(jax.lax.optimization_barrier(found))
            return number + sum(a.ravel()[0].astype(jnp.float32) for a in leaves)

        return jax.lax.fori_loop(0, REPEATS, step, jnp.zeros(()))

    return run


def drawn(case: Case, clients: int) -> list[Array]:
    """Draw arguments of all clients, and the gradient of the value."""
    shapes = (*case.shapes, case.value)
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return [
        jax.random.normal(key, (clients, *shape)) for key, shape in zip(keys, shapes, strict=True)
    ]


def timed(program: Any, arguments: list[Array]) -> float:
    """Return microseconds a time."""

    def once() -> float:
        began = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        return time.perf_counter() - began

    once()
    return 1e6 * statistics.median(once() for _ in range(TURNS)) / REPEATS


def exactness(case: Case, programs: dict[str, Any]) -> dict[str, Any]:
    """Return the largest errors of two clients, and whether NaN stays."""
    arguments = drawn(case, 2)
    exact = programs["float32"](*arguments)
    errors = {
        way: max(
            float(norm(a - b) / norm(b))
            for a, b in zip(programs[way](*arguments), exact, strict=True)
        )
        for way in WAYS
    }
    images = max(range(len(case.shapes)), key=lambda i: len(case.shapes[i]))
    arguments[images] = arguments[images].at[1, 3, 5].set(jnp.nan)
    kernels, xla = (jnp.isnan(programs[way](*arguments)[0]) for way in WAYS)
    spoilt, expected = (a.any(range(2, a.ndim)) for a in (kernels, xla))
    return {"error": errors, "keeps_nan": bool(expected.any() and (spoilt == expected).all())}


def norm(a: Array) -> Array:
    """Return the root of the sum of squares."""
    return jnp.linalg.norm(a.ravel())


if __name__ == "__main__":
    main()
