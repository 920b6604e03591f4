"""Counts the different programs of blocks of rounds that the tests compile.

They take most of the tests' time; ``support.small`` says what makes a program another one. JAX
looks every program up in its cache and logs the name and the key with which it did, found or not.
Each worker of xdist notes the keys of ``run_block`` and hands them to the main process when it
ends, which fails the session if there are more different ones than ``--most-block-programs``
allows (conftest.py has the hooks, the Makefile the bound of ``make test``). So it matters neither
whether the cache was warm nor whether two workers had the same program. What commands compile in
processes of their own is not counted.
"""

import logging
import re

LOOKED_UP = re.compile(r"'jit_run_block' with key '([^']+)'")


class BlockPrograms(logging.Filter):
    """Notes the keys of programs of blocks in what JAX's compiler logs."""

    def __init__(self):
        super().__init__()
        self.keys = set()

    def listen(self):
        """Have every look-up logged, and read it."""
        compiler = logging.getLogger("jax._src.compiler")
        compiler.setLevel(logging.DEBUG)
        compiler.addFilter(self)

    def filter(self, record):
        """Note a key; what is logged for debugging goes no further."""
        self.keys.update(LOOKED_UP.findall(record.getMessage()))
        return record.levelno > logging.DEBUG


BLOCKS = BlockPrograms()
