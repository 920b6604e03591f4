"""What can't fit into memory is refused before it is begun."""

import pytest

from maxfl.utils.errors import OutOfMemoryError
from maxfl.utils.memory import machine_memory, require_memory


def test_what_will_not_fit_is_refused():
    require_memory(machine_memory(), "this", "that")
    with pytest.raises(OutOfMemoryError, match=r"it will take 1e\+03 TB of memory.*: take less"):
        require_memory(10**15, "it", "take less")
