"""Pytrees in an open format: named by their paths, and back in the same structure."""

import numpy as np
from safetensors.numpy import load

from maxfl.utils.tensors import from_tensors, tensors_metadata, to_tensors


def test_a_tree_comes_back_with_its_names_and_metadata():
    tree = [{"weight": np.arange(6.0).reshape(2, 3).T}, (np.float32(1),)]
    content = to_tensors(tree, {"round": "7"})
    assert set(load(content)) == {"0.weight", "1.0"}
    assert tensors_metadata(content) == {"round": "7"}
    found = from_tensors(content, tree)
    np.testing.assert_array_equal(found[0]["weight"], tree[0]["weight"])
    assert found[1] == (1.0,)
