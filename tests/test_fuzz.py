"""Random settings and damaged files: the command answers with a result or with one sentence.

Whatever it refuses, it leaves the output folder as it was. Settings that are accepted are built and
their folder is claimed; some of them are trained too, the others end where training would begin.
"""

import inspect
import json
import math
import random
import shutil
import sys
import warnings

import pytest

import maxfl
from maxfl.cli import main, terminal
from maxfl.runs import run as run_module
from maxfl.runs.configs.model import MODEL_CONFIGS
from maxfl.runs.configs.run import RunConfig
from support.resumable import cut_off, simulation
from support.streamed import write_clients

pytestmark = pytest.mark.slow

SETTINGS, TRAINED, DAMAGED = 2000, 12, 500
BASE = """
model.hidden = [4]
training = {rounds = 3, cohort = 3, local_steps = 2, batch_size = 4, evaluate_every = 1}
requirement.steps = 3
[data]
source = "synthetic"
partition = "by-owner"
clients = 4
unseen = 1
synthetic_samples = 9
"""
NUMBERS = [
    "0", "-1", "1", "2", "3", "5", "0.5", "-0.0", "1.0", "1e-300", "1e300", "nan", "inf", "-inf",
    "1e-45", "2147483647.5", "9" * 40, "9" * 5000, "-2147483649", "0x1F",
]  # fmt: skip
OTHERS = [
    "", "''", '""', "'x'", "true", "false", "[]", "[1]", "[[1]]", "['maxfl']", "{a = 1}", "{}",
    "1979-05-27", "[" * 200 + "]" * 200, "'\\u0000'", "'" + "é" * 300 + "'", "=", "none",
    "[1, 'a']", "'../../etc/passwd'", "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "'[red]'", "{name = 'fedavg'}",
]  # fmt: skip


HPARAMS = {
    name for make in maxfl.ALGORITHMS.values() for name in inspect.signature(make).parameters
}
"""Hyper-parameters of all methods."""


class TrainingReached(Exception):  # noqa: N818 (no error)
    """Training would begin here."""


def keys():
    """Every dotted key of a configuration, and its choices if it has some."""
    sections = [(name, section.annotation) for name, section in RunConfig.model_fields.items()]
    for name, section in sections + [("model", config) for config in MODEL_CONFIGS.values()]:
        fields = getattr(section, "model_fields", None)
        if fields is None:
            yield name, []
        else:
            for key, field in fields.items():
                choices = [
                    c for c in getattr(field.annotation, "__args__", ()) if isinstance(c, str)
                ]
                yield f"{name}.{key}", choices


KEYS = {
    **dict(keys()),
    "model.name": list(MODEL_CONFIGS),
    **{f"algorithm.{name}": [] for name in sorted(HPARAMS)},
}


def misspell(rng, word):
    at = rng.randrange(len(word))
    return word[:at] + rng.choice(["", "x", ".", "-", word[at] * 2]) + word[at + 1 :]


def random_settings(rng):
    """One to three settings, most of them wrong in some way."""
    for _ in range(rng.randint(1, 3)):
        key = rng.choice(list(KEYS))
        value = rng.choice(rng.choice([NUMBERS, NUMBERS, OTHERS, KEYS[key] or NUMBERS]))
        yield f"{misspell(rng, key) if rng.random() < 0.1 else key}={value}"


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command; return its status and what it printed."""
    for console in (terminal.console, terminal.errors):
        monkeypatch.setattr(console, "width", 200)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["maxfl", *map(str, arguments)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((SystemExit, TrainingReached)) as ended:
                main()
        printed = capsys.readouterr()
        reached = isinstance(ended.value, TrainingReached)
        return (0 if reached else ended.value.code or 0), printed.out + printed.err

    return run


def assert_one_sentence(code, printed, arguments):
    assert code in (0, 1, 2), (arguments, printed)
    assert "Traceback" not in printed, (arguments, printed)
    if code == 2:
        said = [line for line in printed.splitlines() if line.lstrip("│ ").startswith("Error")]
        assert len(said) == 1 or "Usage:" in printed, (arguments, printed)


def content(folder):
    """What is in a folder, below it too; None if it is not there."""
    if not folder.exists():
        return None
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def test_random_settings(tmp_path, command, monkeypatch):
    rng = random.Random(18)
    config, out = tmp_path / "base.toml", tmp_path / "out"
    config.write_text(BASE)
    train = run_module._train

    def stop(*_):
        raise TrainingReached

    accepted = refused = 0
    for number in range(SETTINGS):
        settings = list(random_settings(rng))
        begins_empty = rng.random() < 0.5
        shutil.rmtree(out, ignore_errors=True)
        if begins_empty:
            out.mkdir()
        before = content(out)
        monkeypatch.setattr(run_module, "_train", train if accepted < TRAINED else stop)
        arguments = [word for setting in settings for word in ("--set", setting)]
        if rng.random() < 0.15:
            swept = f"{rng.choice(list(KEYS))}=[{rng.choice(NUMBERS)}, {rng.choice(NUMBERS)}]"
            arguments = ["--over", rng.choice([swept, *settings]), *arguments]
        verb = "sweep" if "--over" in arguments else "run"
        code, printed = command(verb, config, "--out", out, *arguments)
        assert_one_sentence(code, printed, (number, settings))
        if code == 2:
            refused += 1
            assert content(out) == before, (number, settings, printed)
        else:
            accepted += 1
    assert accepted > 60
    assert refused > 1000


def damage(rng, data):
    """Change a file's content in one of many ways."""
    if not data:
        return b"x"
    at = rng.randrange(len(data))
    return rng.choice([
        lambda: data[:at],
        lambda: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        lambda: data[:at] + rng.randbytes(rng.randint(1, 40)) + data[at:],
        lambda: data[at:] + data[:at],
        lambda: b"",
        lambda: rng.choice([b"null", b"[]", b"{}", b"3", b'"x"', b"[" * 5000]),
        lambda: wrong_field(rng, data),
    ])()  # fmt: skip


def wrong_field(rng, data):
    """Give a random field of a JSON object a value of another type."""
    try:
        document = json.loads(data)
        key = rng.choice(list(document))
    except (ValueError, IndexError, TypeError):
        return data[::-1]
    inner = document[key] if isinstance(document[key], dict) and document[key] else document
    inner[rng.choice(list(inner))] = rng.choice([None, [], {}, "x", -1, 1.5, math.nan, True])
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished run, one that was cut off, and a federation on disk."""
    place = tmp_path_factory.mktemp("whole")
    maxfl.run(simulation(), place / "finished")
    cut_off(place / "cut", blocks=2)
    write_clients(place / "disk")
    return place


COMMANDS = {
    "finished": (["report", "--no-figures", "--force"], ["watch", "--once"], ["check"]),
    "cut": (["report", "--no-figures"], ["watch", "--once"], ["check"]),
    "disk": (["check"], ["disk"]),
}


def test_damaged_files(folders, tmp_path, command):
    rng = random.Random(18)
    config = tmp_path / "base.toml"
    config.write_text(BASE)
    for number in range(DAMAGED):
        kind = rng.choice(list(COMMANDS))
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / kind, folder)
        path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
        path.write_bytes(damage(rng, path.read_bytes()))
        what = (number, kind, path.name)
        name, *options = rng.choice(COMMANDS[kind])
        if name == "disk":
            settings = ["data.source=disk", f"data.folder={folder}", "data.eval_clients=2"]
            words = [word for setting in settings for word in ("--set", setting)]
            code, printed = command("data", "show", config, "--out", tmp_path / "shown", *words)
        else:
            before = content(folder)
            code, printed = command(name, folder, *options)
            if code == 2:
                assert content(folder) == before, (what, printed)
        assert_one_sentence(code, printed, what)


def test_damaged_runs_are_resumed_or_refused_whole(folders, tmp_path):
    """Resumed from Python, any file of a run: the same model, or a refusal that changes nothing."""
    rng = random.Random(18)
    model = (folders / "finished/model.safetensors").read_bytes()
    for number in range(40):
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / rng.choice(["cut", "finished"]), folder)
        path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
        path.write_bytes(damage(rng, path.read_bytes()))
        before = content(folder)
        try:
            maxfl.run(simulation(), folder, resume=True)
        except maxfl.InputError:
            assert content(folder) == before, (number, path)
        else:
            assert (folder / "model.safetensors").read_bytes() == model, (number, path)


def test_the_pool_of_keys_is_that_of_the_configuration():
    assert {"seed", "training.rounds", "algorithm.name", "data.source"} <= KEYS.keys()
    assert "opt-out" in KEYS["participation.rule"]
