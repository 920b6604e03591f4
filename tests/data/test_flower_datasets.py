"""The partitioners of Flower Datasets make federations."""

import numpy as np
import pytest
from PIL import Image

import maxfl

pytestmark = pytest.mark.extras

datasets = pytest.importorskip("datasets", reason="needs maxfl[partitioners]")
partitioners = pytest.importorskip("flwr_datasets.partitioner", reason="needs maxfl[partitioners]")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    images = [Image.fromarray(np.full((4, 4), i % 256, np.uint8)) for i in range(300)]
    labels = datasets.ClassLabel(names=list("abc"))
    features = datasets.Features({"image": datasets.Image(), "label": labels})
    return datasets.Dataset.from_dict({"image": images, "label": y}, features=features)


def test_a_partitioner_makes_a_federation(table):
    partitioner = partitioners.DirichletPartitioner(6, partition_by="label", alpha=0.5, seed=1)
    partitioner.dataset = table
    fed = maxfl.from_flwr_datasets(partitioner, unseen=2)
    assert fed.clients == 6
    assert fed.seen == 4
    assert fed.metadata.labels == ("a", "b", "c")
    assert fed.train.x.dtype == np.uint8
    assert fed.train.x.shape[1:] == (4, 4)
    sizes = [len(partitioner.load_partition(i)) for i in range(6)]
    np.testing.assert_array_equal(fed.train_sizes + fed.test_sizes, sizes)
    # Client 5's labels are those of partition 5.
    ours = np.concatenate([s.y[s.offsets[5] : s.offsets[6]] for s in (fed.train, fed.test)])
    theirs = partitioner.load_partition(5)["label"][:]
    np.testing.assert_array_equal(np.sort(ours), np.sort(theirs))


def test_a_wrong_column_is_named(table):
    partitioner = partitioners.IidPartitioner(3)
    partitioner.dataset = table
    with pytest.raises(maxfl.InputError, match="no column img; there are image, label"):
        maxfl.from_flwr_datasets(partitioner, x="img")


def test_partitions_that_are_too_small_are_left_out(table):
    class Uneven:
        num_partitions = 4

        def load_partition(self, i):
            ends = [0, 10, 10, 11, 40]
            return table.select(range(ends[i], ends[i + 1]))

    fed = maxfl.from_flwr_datasets(Uneven(), unseen=1)
    assert (fed.train_sizes + fed.test_sizes).tolist() == [10, 29]
    assert fed.names.tolist() == [0, 3]
    assert fed.metadata.notes == ("2 partitions with fewer than 2 samples are left out",)
    assert maxfl.from_flwr_datasets(Uneven(), min_samples=11).names.tolist() == [3]
    with pytest.raises(maxfl.InputError, match="none of 4 partitions has min_samples = 30"):
        maxfl.from_flwr_datasets(Uneven(), min_samples=30)
