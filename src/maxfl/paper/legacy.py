"""What earlier versions called studies, their parts and settings: these are still read.

They knew the paper's protocol alone, and did not say so.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from maxfl.paper.settings import PROTOCOL
from maxfl.report.legacy import METRICS, SETTINGS, column

STUDIES = {"liars": "byzantine", "tuned": "finetuned"}
"""Names of studies, and what they are called now."""
KEYS = SETTINGS | {"plan": "declaration"}
"""Keys of ``study.json``, and what they are called now."""
PART = "% liars", "% Byzantine"
"""The end of some parts' labels, and what it is now."""


def rename_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a ``study.json``, that of version 0.1 under its new names."""
    renamed: dict[str, Any] = _rename(summary)
    declaration = renamed.get("declaration", {})
    if parts := declaration.get("parts"):
        completed = {label: PROTOCOL | settings for label, settings in parts.items()}
        renamed["declaration"] = declaration | {"parts": completed}
    return renamed | {"study": STUDIES.get(summary["study"], summary["study"])}


def rename_table(table: pa.Table) -> pa.Table:
    """Return a table of a study, that of version 0.1 with its new columns and parts."""
    names = [SETTINGS.get(name, column(name)) for name in table.column_names]
    place = table.column_names.index("part")
    parts = pc.replace_substring(table["part"], *PART)
    table = table.set_column(place, "part", parts).rename_columns(names)
    if "metric" not in names:
        return table
    metrics = [METRICS.get(name, name) for name in table["metric"].cast(pa.string()).to_pylist()]
    renamed = pa.array(metrics, pa.string())
    return table.set_column(table.column_names.index("metric"), "metric", renamed)


def _rename(content: Any) -> Any:
    if isinstance(content, dict):
        return {_rename(KEYS.get(key, key)): _rename(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_rename(value) for value in content]
    return content.replace(*PART) if isinstance(content, str) else content
