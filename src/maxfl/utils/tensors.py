"""Pytrees as named tensors in an open format."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as dump_tensors


def to_tensors(tree: Any, metadata: dict[str, str] | None = None) -> bytes:
    """Write a pytree of arrays as a safetensors file's content; names are paths, as 0.weight."""
    return dump_tensors(to_named(tree), metadata)


def from_tensors(content: bytes, like: Any) -> Any:
    """Read a pytree from a safetensors file's content, in the structure of ``like``."""
    return from_named(parse_tensors(content), like)


def tensors_metadata(content: bytes) -> dict[str, str]:
    """Read the metadata of a safetensors file's content."""
    length = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + length])["__metadata__"])


def to_named(tree: Any) -> dict[str, NDArray[Any]]:
    """Name the arrays of a pytree by the paths of its leaves, as 0.weight."""
    leaves, _ = _named_leaves(tree)
    return {name: np.asarray(leaf, order="C") for name, leaf in leaves.items()}


def from_named(named: Mapping[str, Any], like: Any) -> Any:
    """Put named arrays into the structure of ``like``."""
    leaves, structure = _named_leaves(like)
    return structure.unflatten([named[name] for name in leaves])


def _named_leaves(tree: Any) -> tuple[dict[str, Any], Any]:
    """Return the leaves of a pytree by their paths, and its structure."""
    found, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in found}
    return leaves, structure
