"""Settings in nested tables, as TOML has them, and with dotted keys, as people name them."""

import re
from collections.abc import Mapping
from typing import Any


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables into one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def written_first(changed: list[str]) -> list[str]:
    """Return the differences in what the user wrote, if any: the others follow from them."""
    return [line for line in changed if line.startswith(("config", "code."))] or changed


def differences(
    there: Any, here: Any, path: str = "", names: tuple[str, str] = ("there", "here")
) -> list[str]:
    """List what differs between two nested descriptions, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = list(dict.fromkeys([*here, *there]))
        nested = [
            differences(there.get(k), here.get(k), f"{path}.{k}" if path else k, names)
            for k in keys
        ]
        return [line for lines in nested for line in lines]
    if there == here:
        return []
    return [f"{path} ({_short(there)} {names[0]}, {_short(here)} {names[1]})"]


def _short(value: Any) -> str:
    text = str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"SHA-256 {text[:8]}..."
    return text if len(text) <= 60 else f"{text[:57]}..."
