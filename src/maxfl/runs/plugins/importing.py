"""Import a module of the current folder, or an installed one, and say what went wrong."""

import importlib
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from maxfl.runs.plugins.code import is_installed
from maxfl.utils.errors import InputError
from maxfl.utils.paths import EXPERIMENT

PACKAGE = Path(__file__).parents[2]


class _FolderFinder(MetaPathFinder):
    """Finds modules in one folder, before those that are installed, and refuses those of runs.

    Not those with names of the standard library or of this package, so that a file ``json.py`` or
    ``maxfl.py`` there does no harm; and a folder without ``__init__.py``, such as one of results,
    only if it is what was asked for. Without a folder it only refuses.
    """

    def __init__(self, folder: Path | None, wanted: str) -> None:
        self._folder, self._wanted = folder, wanted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that lies in no package; look at where others lie, and leave them."""
        top = fullname.partition(".")[0]
        if top in sys.stdlib_module_names or top == PACKAGE.name:
            return None
        here = None if path is not None else self._here(fullname)
        found = here or PathFinder.find_spec(fullname, path)
        if found is not None:
            _refuse_run(found)
        return here

    def _here(self, fullname: str) -> ModuleSpec | None:
        if self._folder is None:
            return None
        found = PathFinder.find_spec(fullname, [str(self._folder)])
        is_plain_folder = found is not None and found.loader is None
        return None if is_plain_folder and fullname != self._wanted else found


@contextmanager
def importing_from(folder: Path, wanted: str = "") -> Iterator[None]:
    """Look into a folder first for all that is imported meanwhile, unless it is that of a run."""
    finder = _FolderFinder(folder if _run_above(folder) is None else None, wanted)
    importlib.invalidate_caches()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def is_there(top: str, folder: Path) -> bool:
    """Return whether a module of the first level can be found, without importing it."""
    found = PathFinder.find_spec(top, [str(folder)]) or PathFinder.find_spec(top)
    return found is not None and (found.origin is not None or found.loader is not None)


def import_module(name: str, folder: Path) -> ModuleType:
    """Import a module, with a folder in front."""
    top = name.partition(".")[0]
    _refuse_clash(top, folder)
    try:
        with importing_from(folder, top):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise in_words(f"importing {name} failed", error) from error
        file = error.name.replace(".", "/") + ".py"
        raise InputError(
            f"there is no module {error.name}: neither {file} in the current folder {folder} nor "
            f"an installed package"
        ) from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise in_words(f"importing {name} failed", error) from error


def _refuse_clash(top: str, folder: Path) -> None:
    """Refuse a module of a folder that hides another one, or lies in a run folder."""
    here = PathFinder.find_spec(top, [str(folder)])
    if here is None or here.origin is None or top == PACKAGE.name:
        return
    place = shown_path(Path(here.origin))
    if top in sys.stdlib_module_names:
        raise InputError(
            f"{place} has the name of a module of Python's standard library: rename it"
        )
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if loaded is not None and Path(loaded).resolve() != Path(here.origin).resolve():
        raise InputError(f"{place} has the name of another module, {loaded}: rename it")
    _refuse_run(here)


def _refuse_run(found: ModuleSpec) -> None:
    """Refuse a module that lies in a run folder, or below one: others may have written it."""
    places = [found.origin] if found.has_location and found.origin else []
    for place in map(Path, [*places, *(found.submodule_search_locations or ())]):
        run = None if is_installed(place) else _run_above(place.absolute(), place.resolve())
        if run is not None:
            raise InputError(
                f"{shown_path(place)} lies in the folder of a run ({run / EXPERIMENT}), and "
                f"nothing is imported from there: copy your code out of it, and start from there"
            )


def _run_above(*paths: Path) -> Path | None:
    """Return the run folder that one of some paths is, or lies in."""
    for place in dict.fromkeys(above for path in paths for above in (path, *path.parents)):
        try:
            written = json.loads((place / EXPERIMENT).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(written, dict) and "maxfl" in written:
            return place
    return None


def in_words(what: str, error: BaseException) -> InputError:
    """Say what went wrong in own code: the last line of its traceback, and the place."""
    last = traceback.format_exception_only(error)[-1].strip()
    return InputError(f"{what}: {last}{_place(error)}")


def _place(error: BaseException) -> str:
    """Return the last line of own code that an error went through, in brackets."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({shown_path(Path(error.filename))}:{error.lineno})"
    others = (PACKAGE, Path(importlib.__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
        and not any(place in Path(frame.filename).parents for place in others)
    ]
    own = [frame for frame in frames if not is_installed(Path(frame.filename))] or frames
    return f" ({shown_path(Path(own[-1].filename))}:{own[-1].lineno})" if own else ""


def shown_path(path: Path) -> str:
    """Write a path as seen from the current folder, if it lies in it."""
    here = Path.cwd()
    return str(path.relative_to(here) if here in path.parents else path)
