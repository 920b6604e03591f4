"""The command before it does anything: help, versions, completion, mistyped commands."""

import ast
import json
import re
import resource
import shutil
import subprocess
import sys

import click
import pytest
from typer.testing import CliRunner

from maxfl.cli.app import COMMANDS, app
from maxfl.cli.commands import ComputingCommand
from support.commands import ENVIRONMENT, ROOT

ONLY_IN_A_CLONE = re.compile(r"\b(benchmarks|deploy|docs|examples|scripts|src|tests)/[\w.-]+")
HEAVY = {"jax", "matplotlib", "scipy", "pyarrow", "pydantic", "numpy", "flwr"}
LOADED = """
import json, sys
from maxfl.cli import main
sys.argv = ["maxfl", *sys.argv[1:]]
try:
    main()
finally:
    print()
    print(json.dumps(sorted(sys.modules)))
"""


def cpu_seconds():
    """CPU time of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def loaded_by(*arguments):
    """What a fresh process loads for the command, by the names of packages."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], env=ENVIRONMENT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_wait_for_nothing(argument):
    seconds = []
    for _ in range(3):  # a core shared with others counts more seconds for the same
        before = cpu_seconds()
        packages = loaded_by(argument)
        seconds.append(cpu_seconds() - before)
    assert min(seconds) < 0.5
    assert "typer" in packages
    assert not packages & HEAVY


@pytest.mark.parametrize("command", ["run", "sweep", "demo", "watch", "report", "data"])
def test_the_help_of_a_command_needs_no_jax(command):
    assert not loaded_by(command, "--help") & HEAVY


def help_of(*command):
    """The help text, in this process."""
    return CliRunner().invoke(app, [*command, "--help"], color=False).output


def every_command():
    """All commands, with those of groups, as a person types them."""
    for name in COMMANDS:
        yield (name,)
        yield from ((name, below) for below in getattr(COMMANDS[name].load(name), "commands", ()))


def test_help_texts_lose_no_words():
    """As those in brackets that are taken for markup."""
    for command in ((), *every_command()):
        text = " ".join(help_of(*command).replace("│", " ").split())
        assert not re.search(r"[\w>] [.,;:](\s|$)|\(\)|``|\\\[", text), (command, text)
    assert "a file's table [sweep]." in help_of("sweep")


def test_help_texts_name_no_file_that_only_a_clone_has():
    for command in ((), *every_command()):
        text = " ".join(help_of(*command).replace("│", " ").split())
        assert not ONLY_IN_A_CLONE.search(text), (command, text)


def test_messages_name_no_file_that_only_a_clone_has():
    for path in (ROOT / "src/maxfl/cli").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not ONLY_IN_A_CLONE.search(node.value), f"{path.name}: {node.value}"


def test_help_has_a_short_name_everywhere():
    for command in ((), *every_command()):
        short = CliRunner().invoke(app, [*command, "-h"], color=False)
        assert (short.exit_code, short.output) == (0, help_of(*command)), command


def test_help_is_there_for_everything(maxfl):
    for command in (
        *("run", "sweep", "demo", "watch", "report", "init", "list", "data", "paper", "theory"),
        "flower",
    ):
        assert command in help_of()
    for command in ("run", "sweep", "demo"):
        assert "--out" in help_of(command)
    assert "A TOML file" in help_of("run")
    assert "JAX" in maxfl("--version")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_they_say_themselves(name):
    command = COMMANDS[name].load(name)
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name].help
    subcommands = command.commands.values() if isinstance(command, click.Group) else []
    assert all(subcommand.help for subcommand in subcommands)


def test_commands_that_compute_set_jax_up():
    computing = {
        (name, subcommand.name)
        for name in COMMANDS
        for command in [COMMANDS[name].load(name)]
        for subcommand in getattr(command, "commands", {name: command}).values()
        if isinstance(subcommand, ComputingCommand)
    }
    assert computing >= {
        ("run", "run"), ("sweep", "sweep"), ("demo", "demo"), ("data", "show"), ("data", "write"),
        ("paper", "run"), ("theory", "convergence"),
    }  # fmt: skip
    assert not computing & {("watch", "watch"), ("data", "list"), ("data", "fetch")}


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["rnu"], "'run'"), (["data", "shwo"], "'show'"), (["repot", "x"], "'report'")],
)
def test_a_mistyped_command_is_answered_once(maxfl, arguments, near):
    text = maxfl(*arguments, code=2)
    assert text.count("No such command") == 1
    assert text.count("Did you mean") == 1
    assert f"Did you mean {near}?" in text


def test_a_command_that_is_like_no_other_is_refused(maxfl):
    text = maxfl("xyzzy", code=2)
    assert text.count("No such command 'xyzzy'.") == 1
    assert "Did you mean" not in text


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_renamed_option_is_refused_with_its_new_name(maxfl, command):
    text = maxfl(command, "examples/opt-out.toml", "--at-once", 2, code=2)
    assert text == "Error: --at-once is called --max-parallel now\n"
    assert "--at-once" not in help_of(command)


def bash(script, home):
    """What a script prints in bash."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    env = {**ENVIRONMENT, "HOME": str(home)}
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sw"], ["sweep"]),
        (["data", "sh"], ["show"]),
        (["data", ""], ["list", "fetch", "show", "write"]),
        (["run", "--max"], ["--max-parallel"]),
        (["run", "--at"], []),
    ],
)
def test_bash_completes_commands_and_options(tmp_path, words, expected):
    script = (
        'eval "$(maxfl --show-completion)"\n'
        f"COMP_WORDS=(maxfl {' '.join(word or repr('') for word in words)})\n"
        f"COMP_CWORD={len(words)}\n"
        "_maxfl_completion maxfl\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    assert bash(script, tmp_path).split() == expected


def test_completion_is_installed_for_bash(tmp_path):
    text = bash("maxfl --install-completion; true", tmp_path)
    assert "bash completion installed in" in text
    assert "maxfl.sh" in (tmp_path / ".bashrc").read_text()
    assert "_maxfl_completion" in (tmp_path / ".bash_completions/maxfl.sh").read_text()
