"""``maxfl check``: what it says, and its status."""

from support.streamed import write_clients


def test_damage_ends_with_status_1(tmp_path, maxfl):
    folder = write_clients(tmp_path / "federation")
    assert "whole" in maxfl("check", folder)
    damaged = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    text = maxfl("check", folder, code=1)
    assert "Damaged:" in text
    assert damaged.name in text
