"""Images and labels that belong together."""

import numpy as np
import pytest

import maxfl
from maxfl.data.idx import read_labels
from maxfl.data.images import load_images
from maxfl.data.locate import Place
from maxfl.data.registry import fashion_mnist_files
from support.data_files import idx

pytestmark = pytest.mark.usefixtures("own_cache")


def test_labels_that_do_not_fit_the_images(tmp_path):
    """Also where only the sums fit, because the label files were swapped."""
    pairs = fashion_mnist_files("both")
    for pair, images in zip(pairs, (5, 4), strict=True):
        (tmp_path / pair.images.name).write_bytes(idx(np.ones((images, 4, 4))))
        (tmp_path / pair.labels.name).write_bytes(idx(np.ones(9 - images)))
    with pytest.raises(maxfl.InputError, match=r"5 images in .* but 4 labels in ") as caught:
        load_images(pairs, range(10), tmp_path)
    assert "t10k" not in str(caught.value)
    with pytest.raises(maxfl.InputError, match="not an idx file of 1 dimension"):
        read_labels(Place(tmp_path / pair.images.name))
