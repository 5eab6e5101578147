# Two commands do everything: `make run` opens the app, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install upgrade run test test-torch quick lint benchmark targets samples clean
.DEFAULT_GOAL := run

install: $(VENV)/.compiled

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The newest versions of everything, to be tested and then committed.
upgrade: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	mkdir -p build
	{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --quiet --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

# Compile the solver kernels once, so that the first solve in the app is as fast as every other.
$(VENV)/.compiled: $(VENV)/.installed $(wildcard solvers/*.py solvers/*/*.py solvers/*/*/*.py)
	$(BIN)/python -m solvers.warm_up
	touch $@

run: install
	$(BIN)/placement-explorer

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Whatever the shell says of bytecode: tests are rewritten before they run, which takes longer than many a test, and
# every process that they start reads the sources.
test test-torch quick: export PYTHONDONTWRITEBYTECODE =

# As many processes as there are cores, up to four; `.venv/bin/python -m pytest` takes one.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist

test: lint
	$(BIN)/python -m pytest $(PARALLEL) worksteal

# What needs PyTorch, which nothing else does: in an environment of its own, of 1 to 6 GB, made once.
TORCH_VENV := build/torch
TORCH_PACKAGES := torch==2.13.0 transformers==5.23.0 accelerate==1.15.0

$(TORCH_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH_PACKAGES) || { \
		echo "The tests that need PyTorch were not run: $(TORCH_PACKAGES) could not be installed into $(TORCH_VENV)." >&2; \
		exit 1; }
	touch $@

test-torch: install $(TORCH_VENV)/.installed
	IMPORT_TORCH_PYTHON=$(CURDIR)/$(TORCH_VENV)/bin/python $(BIN)/python -m pytest -q -m torch $(PARALLEL) worksteal tests

# What needs neither a browser nor processes, with a tenth of the examples: a minute or two.
quick: install
	$(BIN)/python -m pytest -q -m "not browser and not slow" --ignore=tests/browser --ignore=tests/processes \
		--ignore=tests/app --hypothesis-profile=quick $(PARALLEL) loadfile

benchmark: install
	mkdir -p build
	$(BIN)/python -m pytest benchmarks --benchmark-json=build/benchmark.json
	$(BIN)/python -m benchmarks.results_table build/benchmark.json > benchmarks/RESULTS.md

# How far everything gets on problems that nobody tuned for, in one run on an idle machine: more than an hour.
# Not through a pipe, which would hide that one of them failed.
targets: install
	rm -rf build/targets
	mkdir -p build/targets
	{ set -e; \
	$(BIN)/python -m benchmarks.proofs build/targets/free.json '*/free/?+?' --sample; \
	$(BIN)/python -m benchmarks.proofs build/targets/convex.json '*/convex/*' --sample; \
	$(BIN)/python -m benchmarks.proofs build/targets/chains.json '*/chain/*' --sample --limit 10; \
	$(BIN)/python -m benchmarks.proofs build/targets/wide.json 'nasnet*/chain/[48]*' 'amoebanet/*/chain/[48]*' --limit 10; \
	$(BIN)/python -m benchmarks.branches; \
	$(BIN)/python -m benchmarks.free_targets; \
	$(BIN)/python -m benchmarks.latency_targets; \
	$(BIN)/python -m benchmarks.latency_targets --beds; \
	$(BIN)/python -m benchmarks.mixed_cluster; \
	$(BIN)/python -m benchmarks.sweep --calls 3; \
	$(BIN)/python -m benchmarks.interface; \
	} > build/targets/tables.md

# Write sample_graphs/*.json anew from their generators.
samples: install
	$(BIN)/python -m sample_graphs.generate

clean:
	rm -rf $(VENV) build *.egg-info
