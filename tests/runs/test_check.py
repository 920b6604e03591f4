"""``maxfl check``: any bit that changes in any file of a run or a federation is found."""

import contextlib
import random

import pytest

import maxfl
from maxfl.report.write import write_report
from maxfl.runs.check import check
from maxfl.runs.run import run
from support.resumable import cut_off, simulation
from support.streamed import write_clients


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(simulation(), tmp_path_factory.mktemp("finished") / "run")


def damage_in(folder):
    return [line for found in check(folder) for line in found.damage]


def flip(content, bit):
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


@pytest.mark.parametrize(
    "name",
    [
        "history.parquet", "rounds.parquet", "clients.parquet", "metrics.parquet",
        "partition.parquet", "model.safetensors", "experiment.json", "summary.json",
    ],
)  # fmt: skip
def test_every_flipped_bit_is_found(finished, name):
    path = finished / name
    content = path.read_bytes()
    rng = random.Random(name)
    assert damage_in(finished) == []
    try:
        for _ in range(40):
            path.write_bytes(flip(content, rng.randrange(8 * len(content))))
            assert damage_in(finished), "a flipped bit"
        path.unlink()
        assert damage_in(finished) or name == "experiment.json", "without one, it is of version 0.1"
    finally:
        path.write_bytes(content)


def test_reports_and_resumption_refuse_damage(finished, tmp_path):
    path = finished / "history.parquet"
    content = path.read_bytes()
    try:
        path.write_bytes(flip(content, 4 * len(content)))
        with pytest.raises(maxfl.InputError, match=r"history.parquet is damaged: its digest"):
            write_report([finished], tmp_path / "report", figures=False)
        with pytest.raises(maxfl.InputError, match=r"history.parquet is damaged: its digest"):
            run(simulation(), finished, resume=True)
    finally:
        path.write_bytes(content)


def test_a_checkpoint_is_checked_too(tmp_path):
    folder = cut_off(tmp_path / "run", blocks=3)
    (found,) = check(folder)
    assert (found.what, found.damage) == ("not finished, 3 blocks saved", [])
    block = folder / "checkpoint/block-00001"
    block.write_bytes(flip(block.read_bytes(), 5000))
    assert damage_in(folder) == [
        f"the checkpoint in {folder}/checkpoint can't be resumed: its file block-00001 is damaged: "
        f"the digest does not match. Nothing was changed. Delete {folder}/checkpoint to start "
        f"anew, or restore it from a copy."
    ]


def test_the_description_of_an_unfinished_run_is_checked(tmp_path):
    folder = cut_off(tmp_path / "run", blocks=1)
    path = folder / "experiment.json"
    path.write_text(path.read_text().replace('"rounds": 79', '"rounds": 78'))
    assert "another experiment than the folder" in damage_in(folder)[0]


def test_a_federation_on_disk_is_checked_with_its_features(tmp_path):
    folder = write_clients(tmp_path / "clients")
    assert damage_in(folder) == []
    path = folder / "train-x.bin"
    path.write_bytes(flip(path.read_bytes(), 100))
    assert damage_in(folder) == [f"{path} is damaged: its digest is not the one in federation.json"]


@pytest.mark.parametrize("content", ["null", "[]", "{}", '{"files": 3}', '{"files": {"a": 1}}', ""])
@pytest.mark.parametrize("name", ["summary.json", "experiment.json", "federation.json"])
def test_other_files_end_in_a_sentence(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with contextlib.suppress(maxfl.InputError):
        (found,) = check(tmp_path)
        assert found.damage or found.unknown, "never whole"


def test_reports_do_without_the_model(finished, tmp_path):
    model = finished / "model.safetensors"
    content = model.read_bytes()
    try:
        model.unlink()
        write_report([finished], tmp_path / "report", figures=False)
        assert damage_in(finished) == [f"{model} is gone"]
    finally:
        model.write_bytes(content)


def test_a_federation_that_was_not_written_to_its_end_is_not_whole(tmp_path):
    folder = write_clients(tmp_path / "clients")
    (folder / ".federation.unfinished").touch()
    assert damage_in(folder) == [f"the federation in {folder} was not written to its end"]


def test_folders_that_hold_nothing_are_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(maxfl.InputError, match=r"holds neither|is no folder"):
            list(check(folder))
