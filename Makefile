# Two commands on a fresh machine: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without --no-compile, pip turns thousands of files into bytecode that are never imported; Python
# makes it for those that are, unless the user's environment forbids that.
PINNED := install --quiet --disable-pip-version-check --no-compile -c constraints.txt
INSTALL := $(BIN)/python -m pip $(PINNED) -e
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test pytest test-more lint style types docs bench bench-peers release ranges clean

demo: $(VENV)/installed
	$(BIN)/maxfl demo --out runs/demo --resume

# Types are checked beside the tests, which leave a core idle now and then.
test: style
	$(MAKE) --no-print-directory --jobs=2 types pytest

# Compiling programs takes most of the tests' time, which the bound keeps within five minutes.
pytest: $(VENV)/installed-dev
	$(BIN)/python -m pytest --most-block-programs=60 -m "not extras and not processes and not slow"

# What has heavy dependencies, starts several processes or kills them: Flower on loopback, JAX in two
# processes, federations on disk, trackers, partitioners, notebooks.
test-more: $(VENV)/installed-more
	$(BIN)/python -m pytest --numprocesses=0 -m "extras or slow"
# With the optimisations that users have, and other tests not: equal bits must be equal with them too.
	XLA_FLAGS= $(BIN)/python -m pytest --numprocesses=0 -m processes

lint: style types

style: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

# The site, in build/site: open build/site/index.html. A broken link is an error.
docs: $(VENV)/installed-docs
	$(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/peers/run.py --peers maxfl maxfl-appeal numpy --workloads mlp mlp-evaluated
	$(BIN)/python benchmarks/methods.py

# Makes an environment for each peer (PyTorch is several GB), then about 20 minutes on two cores.
# Alone on the machine; EMNIST is read from MAXFL_DATA.
bench-peers: $(VENV)/installed-dev
	$(BIN)/python benchmarks/peers/run.py

# Builds dist/, looks it over and tries the wheel elsewhere; uploads nothing. TAG=v0.2.0 is held to
# the version and the changes.
release: $(VENV)/installed-release
	$(BIN)/python scripts/release.py $(if $(TAG),--tag '$(TAG)')

# Tests with the lowest and the newest versions that pyproject.toml allows: about ten minutes.
ranges: $(VENV)/installed-dev
	$(BIN)/python scripts/try_ranges.py

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "maxfl needs Python 3.11 or newer")'
# A new pip, put in from outside, is there sooner than the one that comes with Python, which is for
# where there is no pip outside; and an old one takes five seconds longer to find the other packages.
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python $(PINNED) pip 2>/dev/null || $(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt
	$(INSTALL) .
	touch $@

# Each in one go: resolving and building twice takes ten seconds more.
$(VENV)/installed-dev: $(VENV)/created pyproject.toml constraints.txt
	$(INSTALL) '.[dev]'
	touch $(VENV)/installed $@

$(VENV)/installed-more: $(VENV)/created pyproject.toml constraints.txt
	$(INSTALL) '.[more]'
	touch $(VENV)/installed $(VENV)/installed-dev $@

$(VENV)/installed-release: $(VENV)/created pyproject.toml constraints.txt
	$(INSTALL) '.[release]'
	touch $(VENV)/installed $@

$(VENV)/installed-docs: $(VENV)/created pyproject.toml constraints.txt
	$(INSTALL) '.[docs]'
	touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache build dist
