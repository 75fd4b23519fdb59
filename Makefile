# The project's commands. They need Python 3.11 or newer and make, nothing else;
# once the environment stands, none of them installs anything again until
# pyproject.toml or constraints.txt change.
#
#   make demo ARGS="--for 90 --json"     ARGS go to the command
#   make test ARGS="tests/unit -k lane"
#   make test PYTHON=python3.13          which Python makes .venv

PYTHON ?= python3
ARGS   ?=
SEEDS  ?= 1000

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check
PINS := pyproject.toml constraints.txt

DEV  := $(VENV)/.stamp-dev
# The development environment holds all that the demo needs.
DEMO := $(firstword $(wildcard $(DEV)) $(VENV)/.stamp-demo)

.DEFAULT_GOAL := help
.PHONY: help demo venv test chaos sim sim-mutants lint check

help: ## List these commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(DEMO) ## Run everything on a real Kafka, kill parts of it, audit what happened
	@$(BIN)/tickstream demo $(ARGS)

venv: $(DEV) ## Make the development environment, .venv

# Most tests wait for real sessions to end, so three processes finish in half the time of one.
test: $(DEV) ## Run all tests but those of make chaos
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not chaos' $(ARGS)

# One at a time: they load the machine and kill parts of what they load it with.
chaos: $(DEV) ## Run whole systems under load, and kill, stop, cut off and replace parts of them
	@$(BIN)/python -m pytest -m chaos $(ARGS)

# Needs no broker. A seed that fails prints itself; `make sim ARGS="--seed 7"` shows it.
sim: $(DEV) ## Run SEEDS simulated histories and hold them against the promises
	@$(BIN)/python -m tests.sim.run --seeds $(SEEDS) $(ARGS)

# Deliberate faults of the protocol: each has to be caught by the promise that stands beside it.
sim-mutants: $(DEV) ## Run every mutant until the auditor names its promise
	@$(BIN)/python -m tests.sim.mutant_run $(ARGS)

lint: $(DEV) ## Style and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

check: lint ## lint, types and the layering
	@$(BIN)/mypy
	@$(BIN)/lint-imports

$(DEV): $(PINS) | $(BIN)/python
	@echo 'Installing the development environment into $(VENV) ...'
	@$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.stamp-demo: $(PINS) | $(BIN)/python
	@echo 'Installing tickstream into $(VENV) (the first time only) ...'
	@$(PIP) install --quiet -c constraints.txt -e '.[broker,dashboard]'
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	    echo '$(PYTHON) was not found: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "tickstream needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1):" \
	        "name a newer one: make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
