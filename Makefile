# Everything that a developer types. `make` alone lists the targets.
# Needs Python 3.11 or newer, make and git; the rest goes into .venv. Once installed, no target needs a network.

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
BIN := .venv/bin
STAMP := .venv/installed
# What runs on the embedded server, in seconds.
QUICK := not slow and not otherserver and not model
# Half of the suite, mostly waiting for processes, runs beside the other half.
BESIDE := tests/programs tests/embedded tests/bench tests/watch tests/docs tests/dashboard tests/frameworks tests/testing tests/locks tests/guarded tests/everywhere

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv demo serve test check bench lint types suite quick coverage format docs packages clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

$(STAMP): pyproject.toml .ci/venv.py
	@"$(PYTHON)" .ci/venv.py

venv: $(STAMP) ## make .venv with tarry and its development tools

demo: venv ## a thousand unpaid orders, two workers, one of them killed, on the embedded server
	@$(BIN)/tarry demo

serve: venv ## the service on 127.0.0.1:7070: HTTP API, metrics, embedded server
	@$(BIN)/tarry serve

test: packages lint types suite ## everything: lint, types, the whole suite on every server

check: lint types quick ## the inner loop: lint, types, the suite on the embedded server

bench: venv ## measure the speed and print the table
	@$(BIN)/python -m bench

lint: venv ## ruff, the formatter and the import contracts
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: venv ## mypy strict and basedpyright strict
	@echo "== types"
	@$(BIN)/mypy
	@$(BIN)/basedpyright

suite: venv
	@echo "== tests"
	@$(BIN)/python -m pytest -m model > .model.log 2>&1 & model=$$!; \
	 $(BIN)/python -m pytest -m "not model" $(BESIDE) > .beside.log 2>&1 & beside=$$!; \
	 $(BIN)/python -m pytest -m "not model" $(BESIDE:%=--ignore=%); rest=$$?; \
	 wait $$beside; beside=$$?; echo "== $(BESIDE), run beside them"; cat .beside.log; \
	 wait $$model; model=$$?; echo "== the watch's model, run beside them"; cat .model.log; \
	 test $$rest = 0 -a $$beside = 0 -a $$model = 0

coverage: venv ## what the suite does not reach; twice as long as the suite alone
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -m "not model"
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

quick: venv
	@echo "== tests, embedded server only"
	@$(BIN)/python -m pytest -m "$(QUICK)" $(BESIDE) > .beside.log 2>&1 & beside=$$!; \
	 $(BIN)/python -m pytest -m "$(QUICK)" $(BESIDE:%=--ignore=%); rest=$$?; \
	 wait $$beside; beside=$$?; echo "== $(BESIDE), run beside them"; cat .beside.log; \
	 test $$rest = 0 -a $$beside = 0

format: venv ## let ruff format and mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: venv ## write the generated reference pages anew
	@$(BIN)/python docs/generate.py

packages:
	@if [ "$${CI:-}" = true ]; then sh .ci/packages; fi

clean: ## remove .venv and everything that was built
	rm -rf .venv dist build .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
