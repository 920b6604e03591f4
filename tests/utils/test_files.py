"""Files are whole or absent, and what a link points to is not touched."""

from maxfl.utils.files import write_json, write_whole


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
