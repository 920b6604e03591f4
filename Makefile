# Two commands on a fresh machine: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without --no-compile, pip turns thousands of files into bytecode that are never imported; Python
# makes it for those that are, unless the user's environment forbids that.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-more lint bench bench-peers clean

demo: $(VENV)/installed
	$(BIN)/maxfl demo --out runs/demo --resume

test: lint
	$(BIN)/python -m pytest -m "not extras and not processes and not slow"

# What has heavy dependencies, starts several processes or kills them: Flower on loopback, JAX in two
# processes, federations on disk, trackers, partitioners.
test-more: $(VENV)/installed-more
	$(BIN)/python -m pytest --numprocesses=0 -m "extras or slow"
# With the optimisations that users have, and other tests not: equal bits must be equal with them too.
	XLA_FLAGS= $(BIN)/python -m pytest --numprocesses=0 -m processes

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/peers/run.py --peers maxfl maxfl-appeal numpy --workloads mlp mlp-evaluated
	$(BIN)/python benchmarks/methods.py

# Makes an environment for each peer (PyTorch is several GB), then about 20 minutes on two cores.
# Alone on the machine; EMNIST is read from MAXFL_DATA.
bench-peers: $(VENV)/installed-dev
	$(BIN)/python benchmarks/peers/run.py

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "maxfl needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/installed-more: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[more]'
	touch $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache build
