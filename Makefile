# Everything here runs in a virtual environment of its own, .venv, and needs nothing but make, Python 3.10 or newer with pip, and a package index.
# The tests compare with megatron-core, for which 3.11 is the Python of choice.

PYTHON ?= $(shell for python in python3.11 python3; do if $$python -c '' 2>/dev/null; then echo $$python; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
# The environment's commands first, for the tests and the demo that call `ppdsl` by its name.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
PYTEST := $(RUN) python -m pytest
PIP := $(BIN)/python -m pip --quiet --quiet
# Figures are taken with the machine to themselves: tests/benchmarks runs after the other tests, in one process and without coverage.
FAST := -n 2 --dist loadgroup --ignore tests/benchmarks
ALL := -m "slow or not slow"

.DEFAULT_GOAL := help
.PHONY: help demo test lint cover optimised bench nightly clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(VENV)/made ## check, simulate and compile real layouts, and train under one
	$(RUN) bash examples/demo.sh

test: lint cover optimised ## all checks and tests that a change has to pass

lint: $(VENV)/made-for-tests ## style, types and the direction of imports
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports --no-cache

cover: $(VENV)/made-for-tests ## the tests, with the coverage of ppdsl
	$(PYTEST) $(FAST) --cov

# pytest rewrites the tests' own assertions, so that they hold under -O too; only ppdsl's would be gone, if it had any.
optimised: $(VENV)/made-for-tests ## the tests under `python -O`, with few examples a property
	PYTHONOPTIMIZE=1 PPDSL_HYPOTHESIS_PROFILE=smoke $(PYTEST) $(FAST) -m "not slow and not peer and not packaging and not torchrun" \
	  -W "ignore:assertions not in test modules:pytest.PytestConfigWarning"

bench: $(VENV)/made-for-tests ## the figures, as ratios
	$(PYTEST) -rP tests/benchmarks

nightly: $(VENV)/made-for-tests ## the tests with 20,000 examples a property, slow ones included
	PPDSL_HYPOTHESIS_PROFILE=nightly $(PYTEST) $(FAST) $(ALL)
	$(PYTEST) -rP $(ALL) tests/benchmarks

clean: ## remove the environment and all that the tools left
	rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("ppdsl needs Python 3.10 or newer: make PYTHON=..." if sys.version_info < (3, 10) else 0)'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install -c constraints.txt -e ".[runtime]"
	touch $@

# One call, so that torch and megatron-core, which needs a torch, are resolved together.
$(VENV)/made-for-tests: $(VENV)/made
	$(PIP) install -c constraints.txt -e ".[runtime,testing]" --group dev
	touch $@
