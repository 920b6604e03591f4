"""Space on a disk: free, required, and in words."""

import pytest

from maxfl.utils.disk_space import format_bytes, free_space, require_space
from maxfl.utils.errors import DiskFullError


def test_bytes_for_people():
    assert [format_bytes(n) for n in (0, 999, 1000, 2.5e9, 3e15)] == [
        "0 bytes", "999 bytes", "1 kB", "2.5 GB", "3e+03 TB",
    ]  # fmt: skip


def test_what_will_not_fit_is_refused(tmp_path):
    assert free_space(tmp_path / "not" / "there") == pytest.approx(free_space(tmp_path), rel=0.01)
    with pytest.raises(DiskFullError, match=r"the run will take 1e\+06 TB in .* are free: go"):
        require_space(tmp_path, 10**18, "the run", "go elsewhere")
