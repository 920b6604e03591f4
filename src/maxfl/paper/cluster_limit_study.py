"""The limit of the study of clusters, for every η_l of the grid, whose solo models set ρ_k."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_type_hints

import numpy as np

from maxfl.algorithms import fedavg
from maxfl.engine.experiment import Training
from maxfl.engine.simulation import Simulation
from maxfl.paper.cluster_limit import UnionModel, at_best, evaluate_unions
from maxfl.paper.settings import CLUSTERS, RATES
from maxfl.paper.study import Stage
from maxfl.runs.build import build_model
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.file import override_all, validate
from maxfl.runs.folder import RunFolder
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_whole

LIMIT_TABLE, LIMIT_SUMMARY = "limit.csv", "limit.json"
STEPS = {"quick": (250, 500, 1000), "full": (500, 1000, 2000, 4000)}
"""After how many steps the central models are evaluated; the best evaluation counts."""


class LimitRow(NamedTuple):
    """The limit for one η_l and seed.

    Attributes:
        local_lr: η_l of the solo models.
        seed: Of the split and all draws.
        solo_accuracy: Mean test accuracy of the seen clients' solo models.
        clusters: The union that satisfies most seen clients, as "0 2 4".
        seen: Its GM-Appeal among the seen clients.
        unseen: Its GM-Appeal among the unseen clients.
        everybody: GM-Appeal of the model of all clusters together, among the seen clients.
    """

    local_lr: float
    seed: int
    solo_accuracy: float
    clusters: str
    seen: float
    unseen: float
    everybody: float


def run_limit(scale: str, seeds: int, folder: Path, stage: Stage, *, resume: bool) -> Path:
    """Find the limit for every η_l and seed, and write it to a folder, seed by seed."""
    description = {
        "study": "limit", "scale": scale, "seeds": seeds, "steps": list(STEPS[scale]),
        "rates": list(RATES), "settings": CLUSTERS,
    }  # fmt: skip
    run_folder = RunFolder(folder, (LIMIT_TABLE,), last=LIMIT_SUMMARY)
    with run_folder.claim(description, resume=resume) as finished:
        if not finished:
            with stage("central models") as progress:
                for seed in range(seeds):
                    table = folder / f"seed-{seed}.csv"
                    if not table.is_file():
                        write_whole(table, _to_csv(limits(seed, STEPS[scale])))
                    progress(0, 1)("rounds", seed + 1, seeds)
            rows = [row for seed in range(seeds) for row in _from_csv(folder / f"seed-{seed}.csv")]
            summary = {"scale": scale, "seeds": seeds}
            run_folder.write_results({LIMIT_TABLE: _to_csv(rows)}, summary)
    return folder


def limits(seed: int, steps: Sequence[int]) -> list[LimitRow]:
    """Return the limit for each η_l; central models do not depend on it, but the thresholds do."""
    config = validate(override_all({}, CLUSTERS), "clusters")
    federation = prepare_federation(config.data, seed)
    model = build_model(config.model, federation)
    losses = evaluate_unions(federation, model, seed, steps)
    prepared = Simulation(
        federation, model, fedavg(), Training(local_lr=RATES), seed=[seed] * len(RATES)
    ).prepare()
    rows = []
    for rate, thresholds, accuracy in zip(
        RATES, prepared.thresholds.test, prepared.solo.test_metric, strict=True
    ):
        found = [at_best(u, of_u, thresholds, federation.seen) for u, of_u in losses.items()]
        best = max(found, key=lambda union: union.seen)
        everybody = max(found, key=lambda union: len(union.clusters))
        solo = float(np.mean(accuracy[: federation.seen]))
        rows.append(_row(rate, seed, solo, best, everybody))
    return rows


def _row(rate: float, seed: int, solo: float, best: UnionModel, everybody: UnionModel) -> LimitRow:
    clusters = " ".join(map(str, best.clusters))
    shares = (round(x, 4) for x in (best.seen, best.unseen, everybody.seen))
    return LimitRow(rate, seed, round(solo, 4), clusters, *shares)


def _to_csv(rows: Sequence[LimitRow]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LimitRow._fields)
    writer.writerows(rows)
    return text.getvalue().encode()


def _from_csv(path: Path) -> list[LimitRow]:
    kinds = get_type_hints(LimitRow)
    with path.open(encoding="utf-8") as file:
        return [
            LimitRow(**{n: kinds[n](v) for n, v in row.items()}) for row in csv.DictReader(file)
        ]


def read_limit(folder: Path) -> list[LimitRow]:
    """Read the rows of a finished folder."""
    if not (folder / LIMIT_SUMMARY).is_file():
        raise InputError(f"{folder} holds no finished limit: run it with `maxfl paper run limit`")
    return _from_csv(folder / LIMIT_TABLE)


def limit_headings() -> list[str]:
    """Return the headings of the table for people."""
    limit = ("best, seen", "best, unseen", "all clusters, seen")
    return ["η_l", "solo accuracy, %", *limit, "trained on"]


def limit_rows(rows: Sequence[LimitRow]) -> list[list[str]]:
    """Return means over seeds for each η_l, as text."""
    found = []
    for rate in dict.fromkeys(row.local_lr for row in rows):
        seeds = [row for row in rows if row.local_lr == rate]
        solo = 100 * np.mean([row.solo_accuracy for row in seeds])
        shares = [np.mean([getattr(r, f) for r in seeds]) for f in ("seen", "unseen", "everybody")]
        unions = dict.fromkeys(f"{{{r.clusters.replace(' ', ', ')}}}" for r in seeds)
        found.append([f"{rate}", f"{solo:.1f}", *(f"{s:.2f}" for s in shares), "; ".join(unions)])
    return found
