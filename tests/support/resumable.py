"""A run that tests interrupt, kill and resume."""

import maxfl
from maxfl.utils.files import digest
from support.federations import make_clients

RESULTS = ("history.parquet", "rounds.parquet", "clients.parquet", "model.safetensors")
TRAINING = maxfl.Training(
    rounds=40, cohort=3, local_steps=3, batch_size=4, local_lr=0.2, evaluate_every=1, block=1
)


def simulation(**options):
    sizes = [5, 1, 40, 17]
    fed = maxfl.Federation.from_clients(make_clients(sizes), make_clients(sizes, 1), unseen=1)
    options = {"participation": maxfl.opt_out(5), "requirement": maxfl.solo(1.5, 10), **options}
    training = TRAINING._replace(**options.pop("training", {}))
    model = maxfl.mlp(4, (6,), 3, dropout=options.pop("dropout", 0.3))
    algorithm = options.pop("algorithm", maxfl.maxfl([0.5, 1.0]))
    return maxfl.Simulation(fed, model, algorithm, training, **options)


def results(folder):
    return {name: digest((folder / name).read_bytes()) for name in RESULTS}
