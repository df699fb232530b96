# One target per chore; everything that is installed lives in .venv/.
#   make evals    set up, then grade the reference answers        (ARGS="-k 004" and any other pytest option)
#   make test     set up, then run every test                     (ARGS="tests/unit -x")
#   make help     all targets

MODERN := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c '$(MODERN)' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPAT := 8.4 9.0 9.2
ARGS ?=
FUZZ_SECONDS ?= 600
FUZZ_SEED ?=
# Bytecode is kept, or every session that a test starts compiles the package anew.
export PYTHONDONTWRITEBYTECODE =

# $(call attempt,what is being done,command,what to do when it fails)
define attempt
	@echo "set-up: $(1)"
	@$(2) || { echo; echo "set-up failed: $(1)"; echo "  command:    $(2)"; echo "  what to do: $(3)"; exit 1; }
endef

.PHONY: help setup cage evals test lint types format compat bench fuzz soak durability differential faults kills hostile outage vitest lock clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

$(VENV)/ready: requirements/dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "set-up failed: Python 3.11 or later was not found."; \
		echo "  what to do: install it, or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	$(call attempt,a virtual environment in $(VENV)/,$(PYTHON) -m venv --clear $(VENV),install the venv module of Python (on Debian: apt-get install python3-venv))
	$(call attempt,Python packages at the versions of requirements/dev.lock,$(PIP) install --require-hashes --no-deps -r requirements/dev.lock,check the network and the proxy and index settings of pip then run make again)
	$(call attempt,this package,$(PIP) install --no-build-isolation --no-deps -e .,read the message above; make clean starts afresh)
	@touch $@

# Bubblewrap holds what models write; where it cannot be installed, Linux namespaces do the same or the tests say what is missing.
cage:
	@command -v bwrap >/dev/null 2>&1 || test "$$(uname -s)" != Linux || ! command -v apt-get >/dev/null 2>&1 || { \
		if test "$$(id -u)" = 0; then as=; elif sudo -n true 2>/dev/null; then as="sudo -n"; else as=cannot; fi; \
		if test "$$as" = cannot; then echo "set-up: bubblewrap is not installed; what to do: sudo apt-get install bubblewrap (optional)"; \
		else echo "set-up: bubblewrap"; \
			{ $$as apt-get install -y -qq --no-install-recommends bubblewrap || \
			{ $$as apt-get update -qq && $$as apt-get install -y -qq --no-install-recommends bubblewrap; }; } >/dev/null 2>&1 || \
			echo "set-up: bubblewrap could not be installed; what to do: apt-get install bubblewrap (optional)"; fi; }

setup: cage $(VENV)/ready ## the virtual environment, Node and its packages
	@$(BIN)/convex-evals setup --quiet-when-ready

evals: setup ## grade the reference answers of the suite; ARGS="--models gpt-5 -k 004"
	@$(BIN)/pytest evals -v $(ARGS)

test: setup lint types ## every test, with linting and types
	@$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

lint: $(VENV)/ready ## ruff, for mistakes and for format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: $(VENV)/ready ## let ruff mend what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

types: $(VENV)/ready ## mypy, strict
	@$(BIN)/mypy

$(VENV)/compat/%: requirements/pytest-%.lock $(VENV)/ready
	$(call attempt,pytest $* beside the others,$(PIP) install --require-hashes --no-deps --upgrade --target $@ -r $<,check the network and the proxy and index settings of pip)
	@touch $@

compat: setup $(COMPAT:%=$(VENV)/compat/%) ## the plugin tests on every supported pytest
	@set -e; for version in $(COMPAT); do echo "== pytest $$version"; \
		PYTHONPATH=$(CURDIR)/$(VENV)/compat/$$version $(BIN)/python -m pytest tests/plugin -n 2 -q $(ARGS); done

bench: setup ## speed and memory, one line per figure
	@$(BIN)/python -m benchmarks $(ARGS)

fuzz: setup ## hostile input for the engine; FUZZ_SECONDS=600, FUZZ_SEED=N repeats a failure
	@$(BIN)/python -m tests.engine.fuzz $(FUZZ_SECONDS) $(FUZZ_SEED)

soak: setup ## eight clients and 10,000 mutations that overlap; 10,000 rows of an older schema
	@SOAK_MUTATIONS=10000 SOAK_ROWS=10000 $(BIN)/pytest tests/engine/test_concurrency.py tests/scores/test_migration.py -q $(ARGS)

durability: setup ## 200 kills under load with a data folder; DURABILITY_SEED=N repeats the moments
	@DURABILITY_KILLS=200 $(BIN)/pytest tests/engine/test_durable_crash.py -q -s $(ARGS)

differential: setup ## every push by the real CLI and by the toolchain worker, and 5,000 random programs, compared
	@DIFFERENTIAL=1 DIFFERENTIAL_PROGRAMS=5000 $(BIN)/pytest tests/engine/test_warm_push.py tests/engine/test_differential.py -n 2 -q $(ARGS)

faults: setup ## 1,000 cells against a provider with every fault; FAULT_SEED=N repeats the order
	@FAULT_CALLS=1000 $(BIN)/pytest tests/faults/test_provider_faults.py -q $(ARGS)

kills: setup ## 200 kills of controllers, workers and generation children, each resumed; KILLS_SEED=N repeats a series
	@KILLS=200 $(BIN)/pytest tests/faults/test_kills.py -q -s $(ARGS)

outage: setup ## uploads of 200 cells while the scores backend dies, hangs and refuses; OUTAGE_SEED=N repeats the moments
	@OUTAGE_CELLS=200 OUTAGE_DISTURBANCES=16 OUTAGE_ROUNDS=$${OUTAGE_ROUNDS:-3} $(BIN)/pytest tests/scores/test_outage.py -q -s $(ARGS)

hostile: setup ## hostile submissions at every level of the cage that this machine has
	@HOSTILE=all $(BIN)/pytest tests/hostile -n 2 $(ARGS)

vitest: setup ## the suite in the vitest layout beside its twin with Python graders, all submissions
	@VITEST_SUITES=all $(BIN)/pytest tests/plugin/test_vitest_suites.py $(ARGS)

lock: $(VENV)/ready ## refresh the lock files from pyproject.toml and engine/package.json
	@set -e; compile="$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet"; \
		$$compile pyproject.toml --group dev --output-file requirements/dev.lock; \
		for version in $(COMPAT); do \
			echo "pytest==$$version.*" | $$compile - --no-deps --output-file requirements/pytest-$$version.lock; done
	@cd pytest_convex_evals/engine && $(CURDIR)/$(BIN)/npm install --package-lock-only

clean: ## remove everything that was set up or built; results in .evals/ stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
