"""Ways to split samples over clients, and each client's into training and test data.

Each is pure and seeded, and each ends. A split is a list with one array of sample numbers per
client; no sample is used twice. Labels are classes, as numbers or text, one for each sample: an
array or whatever makes one. The classes are the values that occur, in sorted order, whatever their
numbers; with ``classes`` given they are the numbers below it, whether each occurs or not, as runs
of a configuration have them: a class without samples takes part in what is drawn. ``rng`` is a seed
or a NumPy generator.
"""

from maxfl.data.partition.own_parts import OwnParts, own_parts
from maxfl.data.partition.split import Parts, Rows, Split, check_rows, generator
from maxfl.data.partition.train_test import TrainTest, cut, cut_judging, train_test_split
from maxfl.data.partition.ways import by_owner, clusters, dirichlet, dirichlet_unequal, iid, shards

__all__ = [
    "OwnParts",
    "Parts",
    "Rows",
    "Split",
    "TrainTest",
    "by_owner",
    "check_rows",
    "clusters",
    "cut",
    "cut_judging",
    "dirichlet",
    "dirichlet_unequal",
    "generator",
    "iid",
    "own_parts",
    "shards",
    "train_test_split",
]
