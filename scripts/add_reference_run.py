"""Put a finished full run of `maxfl paper` into the package, for `maxfl paper show` and the docs.

    python scripts/add_reference_run.py FOLDER

FOLDER is that of the run, with results.parquet, search.parquet and study.json; parts that the
reference run has and FOLDER has not stay.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.paper.cluster_limit_study import LIMIT_SUMMARY, LIMIT_TABLE
from maxfl.paper.results import STUDY_SEARCH, reference_run
from maxfl.runs.tables import to_parquet
from maxfl.utils.files import write_whole
from maxfl.utils.integrity import FILES, SEAL
from maxfl.utils.paths import STUDY, STUDY_RESULTS


def main() -> None:
    """Merge a run into the reference run of its study."""
    folder = Path(sys.argv[1])
    if (folder / LIMIT_SUMMARY).is_file():
        reference_run("limit").mkdir(parents=True, exist_ok=True)
        for name in (LIMIT_TABLE, LIMIT_SUMMARY):
            write_whole(reference_run("limit") / name, (folder / name).read_bytes())
        return
    summary = json.loads((folder / STUDY).read_text())
    if not summary["scale"].startswith("full"):
        sys.exit(f"{folder} is no full run: {summary['scale']}")
    reference = reference_run(summary["study"])
    reference.mkdir(parents=True, exist_ok=True)
    for name in (STUDY_RESULTS, STUDY_SEARCH):
        if (folder / name).is_file():
            merged = _merge_tables(reference / name, folder / name, parts=list(summary["data"]))
            write_whole(reference / name, to_parquet(merged))
    path = reference / STUDY
    before = json.loads(path.read_text()) if path.is_file() else None
    merged = _merge_summaries(before, summary)
    write_whole(path, (json.dumps(merged, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"{reference}: {sum(f.stat().st_size for f in reference.iterdir()) / 1e3:.0f} kB")


def _merge_tables(before: Path, new: Path, parts: list[str]) -> pa.Table:
    """Return the new table, with the other parts of the one before."""
    table = pq.read_table(new)
    if not before.is_file():
        return table
    others = ~pc.field("part").isin(parts)
    return pa.concat_tables(
        [pq.read_table(before).filter(others), table], promote_options="permissive"
    )


def _merge_summaries(before: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the newer run's machine; both runs' parts, choices and notes; the sum of times."""
    groups = dict.fromkeys(label.partition(": ")[0] for label in new["data"])
    # Merged tables are no longer those that were sealed.
    new = {key: value for key, value in new.items() if key not in (FILES, SEAL)}
    new = {**new, "times": {", ".join(groups): new["seconds"]}}
    if before is None or not set(before["data"]) - set(new["data"]):
        return new
    others = {part: data for part, data in before["data"].items() if part not in new["data"]}
    times = {**before["times"], **new["times"]}
    declared = before.get("declaration", {}).get("parts", {})
    parts = {p: s for p, s in declared.items() if p in others} | new["declaration"]["parts"]
    troubles = [trouble for trouble in before["troubles"] if trouble["part"] in others]
    return {
        **new,
        "seconds": None if None in times.values() else sum(times.values()),
        "times": times,
        "declaration": {**new["declaration"], "parts": parts},
        "data": {**others, **new["data"]},
        "data_notes": {**{p: before["data_notes"][p] for p in others}, **new["data_notes"]},
        **{
            key: {**{p: before[key][p] for p in others}, **new[key]}
            for key in ("chosen", "leads")
            if key in new
        },
        "troubles": troubles + new["troubles"],
    }


if __name__ == "__main__":
    main()
