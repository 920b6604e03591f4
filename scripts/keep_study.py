"""Keep a finished full run of `maxfl paper` in the package, for `maxfl paper show` and the docs.

    python scripts/keep_study.py FOLDER

FOLDER is that of the run, with results.parquet, search.parquet and study.json; parts that were
kept before and are not in it stay.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.paper.cluster_limit_study import ABOUT as LIMIT_ABOUT
from maxfl.paper.cluster_limit_study import TABLE as LIMIT_TABLE
from maxfl.paper.results import kept
from maxfl.paper.study import ABOUT, RESULTS, SEARCH
from maxfl.runs.tables import to_parquet
from maxfl.utils.files import write_whole


def main() -> None:
    """Merge the run into what is kept of its study."""
    folder = Path(sys.argv[1])
    if (folder / LIMIT_ABOUT).is_file():
        kept("limit").mkdir(parents=True, exist_ok=True)
        for name in (LIMIT_TABLE, LIMIT_ABOUT):
            write_whole(kept("limit") / name, (folder / name).read_bytes())
        return
    about = json.loads((folder / ABOUT).read_text())
    if not about["scale"].startswith("full"):
        sys.exit(f"{folder} is no full run: {about['scale']}")
    place = kept(about["study"])
    place.mkdir(parents=True, exist_ok=True)
    for name in (RESULTS, SEARCH):
        if (folder / name).is_file():
            write_whole(place / name, to_parquet(_merged(place / name, folder / name, about)))
    runs = json.loads((place / ABOUT).read_text()) if (place / ABOUT).is_file() else None
    write_whole(
        place / ABOUT,
        (json.dumps(_together(runs, about), indent=1, ensure_ascii=False) + "\n").encode(),
    )
    print(f"{place}: {sum(f.stat().st_size for f in place.iterdir()) / 1e3:.0f} kB")


def _merged(before: Path, new: Path, about: dict) -> pa.Table:
    table = pq.read_table(new)
    if not before.is_file():
        return table
    others = ~pc.field("part").isin(list(about["data"]))
    return pa.concat_tables(
        [pq.read_table(before).filter(others), table], promote_options="permissive"
    )


def _together(before: dict | None, new: dict) -> dict:
    """The newer run's machine; both runs' parts, choices and notes; the sum of their times."""
    new = {**new, "times": {", ".join(new["data"]): new["seconds"]}}
    if before is None or not set(before["data"]) - set(new["data"]):
        return new
    others = {part: v for part, v in before["data"].items() if part not in new["data"]}
    troubles = [own for own in before["troubles"] if own["part"] in others]
    return {
        **new,
        "seconds": new["seconds"] + before["seconds"],
        "times": {**before["times"], **new["times"]},
        "data": {**others, **new["data"]},
        "data_notes": {**{p: before["data_notes"][p] for p in others}, **new["data_notes"]},
        "chosen": {**{p: before["chosen"][p] for p in others}, **new["chosen"]},
        "troubles": troubles + new["troubles"],
    }


if __name__ == "__main__":
    main()
