"""What a run takes of memory and disk, predicted from shapes, and what to lower."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from maxfl.distributed.processes import free_bytes
from maxfl.engine.experiment import Experiment
from maxfl.engine.layout import SWEEP, Layout
from maxfl.engine.memory.footprint import Footprint, tree_bytes
from maxfl.engine.state import CohortRecord, ModelStep, State, count_measures
from maxfl.utils.disk_space import explain_disk_full, format_bytes, require_space
from maxfl.utils.errors import OutOfMemoryError

DISK_BLOCK = 4096
"""Bytes that the smallest file takes."""
OTHER_FILES = 16
"""Of a run and its checkpoint, folders included, beside a file for every block."""


class StateBytes(NamedTuple):
    """Bytes of a configuration's state without client states, and of one client's state."""

    server: int
    client: int


class Resources:
    """What a run takes, predicted.

    Attributes:
        folder_bytes: In its folder, at most, while it goes on.
        min_folder_bytes: In its folder, for sure, while it goes on.
        result_bytes: In its folder once it is finished, about.

    Args:
        programs: The layouts of the rounds and of training alone, each with what gives its memory:
            predicting takes time, so it is called when it is needed.
        folder_bytes: In its folder, for sure and at most; and once it is finished.
        to_lower: What to change where memory is short, in words.
    """

    def __init__(
        self,
        programs: Sequence[tuple[Layout, Callable[[], Footprint]]],
        folder_bytes: tuple[int, int, int],
        to_lower: Sequence[str],
    ) -> None:
        self._programs, self._to_lower = programs, to_lower
        self.min_folder_bytes, self.folder_bytes, self.result_bytes = folder_bytes

    @property
    def device_bytes(self) -> int:
        """Memory that a device will need, about."""
        return max(self._bytes())

    @property
    def largest_layout(self) -> Layout:
        """The one that needs more memory: of the rounds, or of training alone."""
        needed = self._bytes()
        return self._programs[needed.index(max(needed))][0]

    def _bytes(self) -> list[int]:
        return [footprint().of(layout) for layout, footprint in self._programs]

    def advice(self) -> str:
        """Say what a device needs and what to lower."""
        layout = self.largest_layout
        configurations, clients = layout.parallel_configurations, layout.parallel_clients
        room = free_bytes(layout.mesh.devices.flat[0])
        parallel = max(configurations, clients)
        lower = [f"max_parallel (--max-parallel) below {parallel}"] if parallel > 1 else []
        lower += self._to_lower
        return (
            f"A device needs about {format_bytes(self.device_bytes)} of {format_bytes(room)} for "
            f"{configurations} configuration{'s' if configurations > 1 else ''} and {clients} "
            f"client{'s' if clients > 1 else ''} at once: lower {', or '.join(lower)}."
        )

    @contextmanager
    def explain_shortage(self, folder: Path, remedy: str, saved: str) -> Iterator[None]:
        """Say what to change where disk or memory is short.

        Args:
            folder: Of the run.
            remedy: What to do where the disk is full.
            saved: What is not lost, as a sentence.
        """
        with (
            explain_disk_full(
                folder, "the run", self.folder_bytes, f"make room.{saved} Or {remedy}"
            ),
            explain_out_of_memory(self.advice, saved),
        ):
            yield

    def require_space(self, folder: Path, remedy: str) -> None:
        """Refuse to begin what the disk can't hold."""
        require_space(folder, self.min_folder_bytes, "the run", remedy)


@contextmanager
def explain_out_of_memory(advice: Callable[[], str], saved: str = "") -> Iterator[None]:
    """Say what was predicted, and which setting to lower; ``saved`` says what is not lost."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        why = str(error).split("\n")[0]
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in why:
            raise
        raise OutOfMemoryError(f"out of memory ({why}). {advice()}{saved}") from error


def parallel_configurations(layout: Layout, configurations: int) -> int:
    """Return how many configurations run side by side, on all devices together."""
    return min(configurations, layout.parallel_configurations * layout.mesh.shape[SWEEP])


def state_bytes(state: State, configurations: int, rows: int) -> StateBytes:
    """Count those of a state, given by its shapes, with so many rows of client states."""
    states = state.client_states
    server = tree_bytes((state.server, state.opt_state, states.slot))
    return StateBytes(server // configurations, tree_bytes(states.rows) // (configurations * rows))


def results_bytes(
    experiment: Experiment, configurations: int, clients: int, *, personal: bool
) -> int:
    """Count bytes of all evaluations by so many clients, and of all rounds.

    Twice, since tables are written before the checkpoint is removed; and what files take beyond
    their content.
    """
    training = experiment.training
    measures = count_measures(len(experiment.model.named_metrics), personal=personal)
    cohort = training.cohort * len(CohortRecord._fields) + len(ModelStep._fields)
    rounds = training.rounds * cohort
    content = 4 * configurations * (training.evaluations * clients * measures + rounds)
    blocks = -(
        -training.evaluations // max(1, training.checkpoint_every // training.evaluate_every)
    )
    return 2 * content + DISK_BLOCK * (blocks + OTHER_FILES)
