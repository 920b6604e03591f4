"""What installed packages offer by short names: entry points of three groups.

In a package's pyproject.toml:

    [project.entry-points."maxfl.algorithms"]
    mymethod = "mypackage.methods:mymethod"
"""

from functools import lru_cache
from importlib.metadata import entry_points
from typing import Literal, NamedTuple

from maxfl.runs.plugins.resolve import Own, is_target, load
from maxfl.utils.errors import InputError

Kind = Literal["algorithm", "model", "data", "loss", "requirement"]
GROUPS: dict[str, str] = {
    "algorithm": "maxfl.algorithms",
    "model": "maxfl.models",
    "data": "maxfl.data",
}


class Offered(NamedTuple):
    """Something that an installed package offers.

    Attributes:
        name: Its short name.
        target: ``module:function``.
        package: The package and its version.
    """

    name: str
    target: str
    package: str


@lru_cache
def offered(kind: Kind) -> tuple[Offered, ...]:
    """Return what installed packages offer of a kind, by name."""
    if kind not in GROUPS:
        return ()
    found = {
        Offered(point.name, point.value.partition("[")[0].strip(), _package(point.dist))
        for point in entry_points(group=GROUPS[kind])
    }
    return tuple(sorted(found))


def _package(dist: object) -> str:
    name, version = getattr(dist, "name", None), getattr(dist, "version", None)
    return f"{name} {version}" if name else "an unknown package"


def find_target(name: object, kind: Kind) -> str | None:
    """Return ``module:function`` of what a setting names; None where it is not own code.

    A built-in name is the built-in thing, whatever packages call so: ask for those first.
    """
    if is_target(name):
        return str(name)
    found = [one for one in offered(kind) if one.name == name]
    if len({one.target for one in found}) > 1:
        choices = " or ".join(f"{one.target} ({one.package})" for one in found)
        raise InputError(f"several packages offer {name}: choose {choices}")
    return found[0].target if found else None


def load_named(name: str, kind: Kind) -> Own:
    """Import what a setting names: ``module:function``, or a short name of a package."""
    target = find_target(name, kind)
    if target is None:
        raise InputError(f"{name!r} is neither module:function nor offered by a package")
    return load(target)
