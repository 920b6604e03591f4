"""Give the reference runs and the tables of docs/ the names of today.

    python scripts/convert_reference_runs.py

Only names change, and the paper's protocol is written down where older runs had no other: no value
does, and nothing is run again. A second call changes nothing.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from maxfl.paper.legacy import rename_summary, rename_table
from maxfl.paper.results import reference_run
from maxfl.runs.tables import to_parquet
from maxfl.utils.files import write_whole
from maxfl.utils.paths import STUDY

DOCS = Path(__file__).parent.parent / "docs"
HEADINGS = {
    "demo-search.csv": {"flipped": "flipped_fraction"},
    "theory/convergence.csv": {"T": "rounds"},
}
"""Headings of tables in docs/, and what they are called now."""


def main() -> None:
    """Rewrite every file that has an old name, and print it."""
    folders = sorted(path.parent for path in reference_run("").glob("*/" + STUDY))
    converted = [path for folder in folders for path in _convert_study(folder)]
    converted += [DOCS / name for name in HEADINGS if _convert_headings(DOCS / name)]
    for path in converted:
        print(path)


def _convert_study(folder: Path) -> list[Path]:
    """Rewrite the files of a study that have old names, and return them."""
    converted = []
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        renamed = rename_table(table)
        same = all(
            renamed[name].equals(table[name].cast(pa.string())) for name in ("part", "metric")
        )
        if not (same and renamed.column_names == table.column_names):
            write_whole(path, to_parquet(renamed))
            converted.append(path)
    path = folder / STUDY
    summary = json.loads(path.read_text(encoding="utf-8"))
    if (renamed := rename_summary(summary)) != summary:
        write_whole(path, (json.dumps(renamed, indent=1, ensure_ascii=False) + "\n").encode())
        converted.append(path)
    return converted


def _convert_headings(path: Path) -> bool:
    """Rewrite the first line of a table if it has old names, and say whether it had."""
    old, rest = path.read_bytes().split(b"\n", 1)
    names = [HEADINGS[path.relative_to(DOCS).as_posix()].get(n, n) for n in old.decode().split(",")]
    if (new := ",".join(names).encode()) == old:
        return False
    write_whole(path, new + b"\n" + rest)
    return True


if __name__ == "__main__":
    main()
