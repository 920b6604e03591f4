"""What flows from where to where in a traced program: dependence, and most bytes at a time.

Memory is that of a compiler that fuses: what is computed element by element never reaches it,
unless something needs it there, as a matrix product does, or it would be computed more than once
at some cost; what it was computed from stays as long. On a GPU, a product converts and scales
smaller numbers that are there on the way. A product that is only added to an input, as
the gradient of a weight is to the weight, is added in its place. Loops fill arrays of zeros: those
of one size are copies of a single one, which stays until the last loop takes it.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import jax

ALIASES = frozenset({"copy", "expand_dims", "name", "optimization_barrier", "reshape", "squeeze"})
"""Operations that return what they are given, in another shape."""

FUSED = ALIASES | frozenset({
    "abs", "add", "add_any", "and", "bitcast_convert_type", "broadcast_in_dim", "ceil", "clamp",
    "concatenate", "convert_element_type", "cos", "div", "dynamic_slice", "eq", "erf", "exp",
    "exp2", "expm1", "floor", "gather", "ge", "gt", "integer_pow", "iota", "is_finite", "le",
    "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "one_minus_square",
    "or", "pad", "population_count", "pow", "random_fold_in", "random_unwrap", "random_wrap",
    "rem", "rev", "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "slice", "split", "sqrt", "square", "stack", "sub", "tan",
    "tanh", "transpose", "xor",
})  # fmt: skip
"""Operations that are computed where their values are used."""

SCALING = ALIASES | {"add", "convert_element_type", "mul", "neg", "sub", "transpose"}
"""Those of them that a product on a GPU computes on the way, of one value and literals."""

COSTLY = frozenset({
    "concatenate", "cos", "erf", "exp", "exp2", "expm1", "log", "log1p", "logistic", "pow", "sin",
    "stack", "tan", "tanh",
})  # fmt: skip
"""Those of them that are computed once, where several operations use their values."""

READS_FUSED = frozenset({
    "argmax", "argmin", "random_bits", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
    "reduce_prod", "reduce_sum", "threefry2x32",
})  # fmt: skip
"""Operations whose values are in memory, but not what they are computed from."""

CALLS = frozenset(
    {"checkpoint", "closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit", "remat2"}
)
LOOPS = frozenset({"scan", "while"})
PRODUCT = "dot_general"
SUMS = frozenset({"add", "add_any"})


class Value:
    """A value of a program, by identity."""

    def __init__(self, aval: Any) -> None:
        self.size = array_bytes(aval)


class Operation(NamedTuple):
    """An operation, those of called programs in their place.

    Attributes:
        name: Of its primitive.
        inputs: What it computes from, without literals.
        outputs: What it computes.
        inner: The bodies of a loop, or the branches of a condition.
        stacked: Those of its outputs of which each turn of a loop gives a row.
    """

    name: str
    inputs: list[Value]
    outputs: list[Value]
    inner: list[Any]
    stacked: list[Value]


class Span(NamedTuple):
    """Bytes that are taken from one operation to another, counted from 0."""

    size: int
    first: int
    last: int


class Program:
    """A traced program as one row of operations.

    Args:
        jaxpr: As of ``jax.make_jaxpr(...).jaxpr``.
    """

    def __init__(self, jaxpr: Any) -> None:
        values = {variable: Value(variable.aval) for variable in jaxpr.invars}
        self.inputs = list(values.values())
        operations = list(_operations(jaxpr, values))
        self.outputs = [values[v] for v in jaxpr.outvars if not _is_literal(v) and v in values]
        self.operations = _used(operations, self.outputs)
        self._readers = Counter(v for operation in self.operations for v in operation.inputs)
        self._readers.update(self.outputs)
        self._added = self._find_added()

    def depends(self, varying: Iterable[Value]) -> set[Value]:
        """Return all values that depend on some."""
        found = set(varying)
        for operation in self.operations:
            if not found.isdisjoint(operation.inputs):
                found.update(operation.outputs)
        return found

    def peak_bytes(self, varying: Iterable[Value]) -> int:
        """Count most bytes alive at a time of what depends on some values, those not counted."""
        counted, in_memory = self.depends(varying), self._in_memory()
        sources = {value: frozenset([value]) for value in self.inputs}
        born: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for i, operation in enumerate(self.operations):
            used = frozenset[Value]().union(*(sources.get(v, ()) for v in operation.inputs))
            for j, value in enumerate(operation.outputs):
                if operation.name in ALIASES and len(operation.inputs) == len(operation.outputs):
                    sources[value] = sources.get(operation.inputs[j], frozenset())
                    continue
                if operation.name in FUSED and value not in in_memory:
                    sources[value] = used
                    continue
                sources[value] = frozenset([value])
                last |= dict.fromkeys(used, i)
                if value in counted and value not in self._added:
                    born[value] = i
        for value in self.outputs:
            last |= dict.fromkeys(sources.get(value, ()), len(self.operations))
        spans = [Span(value.size, i, last.get(value, i)) for value, i in born.items()]
        return self._most(counted, [*spans, *self._waiting(counted)])

    def timing_bytes(self, varying: Iterable[Value]) -> int:
        """Count bytes to time the largest product that depends on some values.

        A compiler that picks kernels by timing them makes room for all that a product reads, for
        its result, and for the one that it is compared with.
        """
        counted, most = self.depends(varying), 0
        for operation in self.operations:
            if counted.isdisjoint(operation.inputs):
                continue
            if operation.name == PRODUCT:
                (result,) = operation.outputs
                read = sum(value.size for value in operation.inputs if value in counted)
                if result in self._added:  # what it is added to is read too
                    read += result.size
                most = max(most, read + 2 * result.size)
            programs = map(Program, operation.inner)
            most = max([most, *(program.timing_bytes(program.inputs) for program in programs)])
        return most

    def _find_added(self) -> set[Value]:
        """Return outputs that are products added to inputs in place, and what leads to them."""
        made = {value: operation for operation in self.operations for value in operation.outputs}
        inputs, found = set(self.inputs), set[Value]()
        for output in self.outputs:
            total = made.get(output)
            if total is None or total.name not in SUMS or len(total.inputs) != 2:
                continue
            for place, value in permutations(total.inputs):
                way = self._way_from_product(value, made)
                if place in inputs and way:
                    found |= {output, *way}
        return found

    def _way_from_product(self, value: Value, made: dict[Value, Operation]) -> set[Value]:
        """Return a product and what is made of it alone up to a value; nothing if it is none."""
        way: set[Value] = set()
        while value in made and self._readers[value] == 1:
            way.add(value)
            if made[value].name == PRODUCT:
                return way
            if made[value].name not in FUSED or len(made[value].inputs) != 1:
                break
            (value,) = made[value].inputs
        return set()

    def _waiting(self, counted: set[Value]) -> Iterator[Span]:
        """Give zeros that wait for the last loop that fills an array of their size."""
        loops: dict[int, list[int]] = {}
        for i, operation in enumerate(self.operations):
            for value in counted.intersection(operation.stacked):
                loops.setdefault(value.size, []).append(i)
        for size, turns in loops.items():
            if turns[0] < turns[-1]:
                yield Span(size, turns[0], turns[-1] - 1)

    def _in_memory(self) -> set[Value]:
        """Return what must be in memory: outputs, what some operations read, what costs time."""
        found = set(self.outputs)
        for operation in self.operations:
            if operation.name in COSTLY:
                found.update(value for value in operation.outputs if self._readers[value] > 1)
        scaled = self._scaled_by_products() if jax.default_backend() == "gpu" else {}
        self._add_what_is_read(found, scaled)
        for value in sorted(scaled, key=lambda value: value.size):
            if scaled[value] not in found:  # what is smaller was decided before
                found.add(value)
        self._add_what_is_read(found, scaled)
        return found

    def _add_what_is_read(self, found: set[Value], scaled: Container[Value]) -> None:
        """Add what operations read, and what is the same, unless it is scaled on the way."""
        for operation in reversed(self.operations):
            reads = operation.name not in FUSED and operation.name not in READS_FUSED
            if reads or (operation.name in ALIASES and not found.isdisjoint(operation.outputs)):
                is_product = operation.name == PRODUCT
                found.update(v for v in operation.inputs if not is_product or v not in scaled)

    def _scaled_by_products(self) -> dict[Value, Value]:
        """Return what products on a GPU can make of smaller numbers on the way, and of which."""
        made = {value: operation for operation in self.operations for value in operation.outputs}
        found: dict[Value, Value] = {}
        for operation in self.operations:
            for value in operation.inputs if operation.name == PRODUCT else ():
                source = value
                while source.size >= value.size and source in made:
                    maker = made[source]
                    if maker.name not in SCALING or len(maker.inputs) != 1:
                        break
                    (source,) = maker.inputs
                if source.size < value.size:
                    found[value] = source
        return found

    def _most(self, counted: set[Value], spans: Iterable[Span]) -> int:
        """Count bytes operation by operation."""
        changes = [0] * (len(self.operations) + 2)
        for size, first, last in spans:
            changes[first] += size
            changes[last + 1] -= size
        alive = most = 0
        for operation, change in zip(self.operations, changes, strict=False):
            before, alive = alive, alive + change
            inner = 0 if counted.isdisjoint(operation.inputs) else _inner_bytes(operation)
            # What a branch returns is alive within it; what a loop returns, beside its work.
            within = alive + inner if operation.name in LOOPS else before + inner
            most = max(most, alive, within)
        return most


def array_bytes(a: Any) -> int:
    """Count bytes of an array or its shape."""
    itemsize = getattr(getattr(a, "dtype", None), "itemsize", 0)
    return int(a.size) * itemsize if itemsize else 0


def _inner_bytes(operation: Operation) -> int:
    """Count most bytes of a loop's bodies or of branches."""
    programs = map(Program, operation.inner)
    return max((program.peak_bytes(program.inputs) for program in programs), default=0)


def _operations(jaxpr: Any, values: dict[Any, Value]) -> Iterator[Operation]:
    """List operations, those of called programs in place of the calls; fills in ``values``."""
    for equation in jaxpr.eqns:
        given = [None if _is_literal(v) else values.get(v) for v in equation.invars]
        inner = [p for p in _flat(equation.params.values()) if hasattr(p, "eqns")]
        platforms = equation.params.get("branches_platforms")
        if platforms is not None:  # what jax.lax.platform_dependent becomes: an index, operands
            given, inner = given[1:], [inner[_branch_here(platforms)]]
        if platforms is not None or (equation.primitive.name in CALLS and len(inner) == 1):
            called = inner[0]
            passed = {
                variable: Value(variable.aval) if value is None else value
                for variable, value in zip(called.invars, given, strict=True)
            }
            yield from _operations(called, passed)
            for outer, variable in zip(equation.outvars, called.outvars, strict=True):
                known = None if _is_literal(variable) else passed.get(variable)
                values[outer] = known or Value(outer.aval)
            continue
        outputs = [Value(variable.aval) for variable in equation.outvars]
        values.update(zip(equation.outvars, outputs, strict=True))
        inputs = [value for value in given if value is not None]
        stacked = _stacked(equation, outputs, *inner) if equation.primitive.name == "scan" else []
        yield Operation(equation.primitive.name, inputs, outputs, inner, stacked)


def _used(operations: Sequence[Operation], outputs: Iterable[Value]) -> list[Operation]:
    """Return the operations that lead to some values; compilers leave out the others."""
    found, wanted = list[Operation](), set(outputs)
    for operation in reversed(operations):
        if not wanted.isdisjoint(operation.outputs):
            found.append(operation)
            wanted.update(operation.inputs)
    return found[::-1]


def _stacked(scan: Any, outputs: Sequence[Value], body: Any) -> list[Value]:
    """Return those outputs of a scan that have an axis more than its body's."""
    pairs = zip(scan.outvars, body.outvars, strict=True)
    return [
        value for value, (a, b) in zip(outputs, pairs, strict=True) if a.aval.ndim > b.aval.ndim
    ]


def _branch_here(platforms: Sequence[Sequence[str] | None]) -> int:
    """Return which branch is taken on this backend; the one of None is for all others."""
    here = jax.default_backend()
    # A backend has other names too: "gpu" is "cuda" or "rocm" where branches are chosen.
    names = {here, *({"cuda", "rocm"} if here == "gpu" else ())}
    fitting = [i for i, some in enumerate(platforms) if some is None or names.intersection(some)]
    return fitting[0]


def _is_literal(value: Any) -> bool:
    return hasattr(value, "val")


def _flat(params: Iterable[Any]) -> Sequence[Any]:
    """Return the parameters of an operation, those in tuples too, closed programs opened."""
    flat: list[Any] = []
    for p in params:
        flat += _flat(p) if isinstance(p, tuple | list) else [getattr(p, "jaxpr", p)]
    return flat
