"""Files are whole or absent, and what a link points to is not touched."""

import os
import threading

from maxfl.utils.files import PRIVATE, locked, write_json, write_whole


def test_links_are_replaced_not_followed(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("keep me")
    for name in ("progress.json", ".progress.json.partial"):
        (tmp_path / name).symlink_to(mine)
    write_json(tmp_path / "progress.json", {"done": 1})
    assert mine.read_text() == "keep me"
    assert not (tmp_path / "progress.json").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "progress.json"]


def test_what_a_killed_write_left_is_replaced(tmp_path):
    (tmp_path / ".a.partial").write_text("half of it, and longer than the whole")
    write_whole(tmp_path / "a", b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_a_private_file_is_for_its_owner_from_the_start(tmp_path):
    before = os.umask(0)
    try:
        write_json(tmp_path / "mine", 1, PRIVATE)
        write_json(tmp_path / "ours", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o666


def test_a_lock_is_waited_for(tmp_path):
    waited, order = threading.Event(), []

    def second():
        with locked(tmp_path / "lock", on_wait=waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path / "lock"):
        thread.start()
        assert waited.wait(20)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]
