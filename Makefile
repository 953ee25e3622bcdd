# Two commands do all the set-up: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
# Two workers keep a two-core machine busy; more would only compete for memory with the real models.
WORKERS ?= 2
PYTEST_ARGS ?=
# The torch that is installed; the newest pair is what users without our constraints get.
TESTED_TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH ?= $(TESTED_TORCH)
NEWEST_PYTHON ?= python3.13
NEWEST_TORCH ?= 2.15.0
# Each torch has its own bounds for setuptools.
OTHER_PINS := $(if $(filter-out $(TESTED_TORCH),$(TORCH)),; /^setuptools==/d)
# Interpreters of `make test-versions`, each in an environment of its own: .venv-3.12 and so on.
PYTHONS ?= 3.11 3.12 3.13

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
EXAMPLE := repro_corpus/examples/graph_break.py
C_SOURCES := $(wildcard dynamo/csrc/*.[ch] inductor/csrc/*.[ch])
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help env demo test test-slow test-gpu test-versions test-newest lint types contracts unit bench bench-gpu bench-compiler accept asan fuzz sdist clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(VENV)/.installed ## create .venv and install the package with its C extension

demo: env ## install, then explain and view an example script
	$(BIN)/dynamo-debug explain $(EXAMPLE)
	$(BIN)/dynamo-debug tui $(EXAMPLE)

test: $(VENV)/.installed-test ## lint, types, import contracts and all tests
	@status=0; \
	for step in lint types contracts; do $(MAKE) --no-print-directory $$step || status=1; done; \
	$(MAKE) --no-print-directory unit || status=1; \
	exit $$status

lint: $(VENV)/.installed-test ## ruff
	$(BIN)/ruff check .

types: $(VENV)/.installed-test ## mypy
	$(BIN)/mypy

contracts: $(VENV)/.installed-test ## who may import whom
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.installed-test ## the tests alone; PYTEST_ARGS="-k name" selects
	$(PYTEST) -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-test ## more real models and longer runs
	$(PYTEST) -n $(WORKERS) --dist worksteal -m slow $(PYTEST_ARGS)

test-gpu: $(VENV)/.installed-test ## the tests that need an NVIDIA GPU
	$(PYTEST) -m gpu $(PYTEST_ARGS)

bench-gpu: $(VENV)/.installed-test ## kernels and calls on a GPU beside eager and torch.compile; BENCH_ARGS="--help"
	$(BIN)/python -m tests.benchmarks.gpu $(BENCH_ARGS)

test-versions: ## the tests on several Pythons; PYTHONS="3.12 3.13"
	@status=0; \
	for version in $(PYTHONS); do \
		$(MAKE) --no-print-directory unit VENV=.venv-$$version PYTHON=python$$version || status=1; \
	done; \
	exit $$status

test-newest: ## the tests on the newest supported Python and torch, in .venv-newest (several GB)
	$(MAKE) --no-print-directory unit VENV=.venv-newest PYTHON=$(NEWEST_PYTHON) TORCH=$(NEWEST_TORCH)

fuzz: $(VENV)/.installed-test ## random programs until stopped; FUZZ_SECONDS=600
	FUZZ_SECONDS=$${FUZZ_SECONDS:-600} $(PYTEST) -m fuzz --timeout 0 -s tests/generator tests/inductor/test_random_programs.py $(PYTEST_ARGS)

bench-compiler: $(VENV)/.installed-test ## the compiler beside eager and torch.compile; BENCH_ARGS="--help"
	$(BIN)/python -m tests.benchmarks.compiler $(BENCH_ARGS)

bench: $(VENV)/.installed-test ## measurements side by side with torch's own compiler
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

accept: $(VENV)/.installed-test ## accept what changed in golden files, then look at `git diff`
	ACCEPT_GOLDEN=1 EXPECTTEST_ACCEPT=1 $(PYTEST) -n $(WORKERS) $(PYTEST_ARGS)

asan: $(VENV)/.installed-test ## the C extension's tests under AddressSanitizer
	$(MAKE) -f tests/csrc/asan.mk asan PYTHON=$(abspath $(BIN))/python PYTEST_ARGS="$(PYTEST_ARGS)"

sdist: $(VENV)/.installed-test ## source distribution and wheel in dist/
	$(PIP) install build
	$(BIN)/python -m build

clean: ## remove what was built, keep .venv
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find dynamo -name '*.so' -delete

$(VENV)/.python: constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"Python >= 3.11 is needed, {sys.executable} is {v[0]}.{v[1]}; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	sed 's/^torch==.*/torch==$(TORCH)/$(OTHER_PINS)' constraints.txt > $(VENV)/constraints.txt
	$(PIP) install -c $(VENV)/constraints.txt pip setuptools wheel
	@touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml constraints.txt $(wildcard setup.py) $(C_SOURCES)
	$(PIP) install -c $(VENV)/constraints.txt --no-build-isolation -e .
	@touch $@

# The wheels of torchvision and timm ask for the torch they were built for; their models run on any (tests/models/torchvision_ops.py).
$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) install -c $(VENV)/constraints.txt --no-build-isolation -e '.[test]'
	$(PIP) install -c $(VENV)/constraints.txt --no-deps torchvision timm
	@touch $@
