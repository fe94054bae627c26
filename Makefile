# Everything that a developer types. `make` alone lists the targets.
# Needs Python 3.11 or newer, make and git; the rest goes into .venv. Once installed, no target needs a network.

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
BIN := .venv/bin
STAMP := .venv/installed
# Tests run in several processes, each with servers of its own: five per core, because many tests wait; those of make check wait
# less. A file stays in one process.
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
SIDE_BY_SIDE = -n $$(($(1) * $(CORES)))
# Runs beside the tests; its output comes at the end.
BESIDE = --beside "$(MAKE) --no-print-directory $(1)"
# The quick tests on the embedded server, of a table of rows four: nothing of what reads sources and pages, of the programs one file.
# Where each run waits for the type checkers, mypy reads the library, and basedpyright, which has no cache, what users import and tests/typing,
# which is what they write: a sixth of its time. `make types`, which `make test-long` runs beside its tests, reads everything.
PUBLIC := src/tarry/*.py src/tarry/celery/__init__.py src/tarry/django/__init__.py tests/typing
OUTER := beanstalk bench chaos conformance dashboard dialects docs frameworks mutants names packaging plugins programs service sqs testing upgrade vectors watch
INNER := $(sort $(filter-out $(OUTER:%=tests/%/),$(dir $(wildcard tests/*/test_*.py)))) tests/service/test_api.py
QUICK := not slow and not otherserver and not model and not long and not twin and not row
# Let Python keep its bytecode: hundreds of processes start, and compiling would be most of their start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv demo serve test test-changed check test-long test-oldest test-steady prove mutants bench bench-peers profile chaos drill lint types types-public mypy mypy-src coverage format blocking docs pictures dist packages clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

$(STAMP): pyproject.toml .ci/venv.py
	@"$(PYTHON)" .ci/venv.py dev

# Only what the target needs, 50 to 150 MB; `make venv` adds the development tools.
$(STAMP)-%: pyproject.toml .ci/venv.py
	@"$(PYTHON)" .ci/venv.py $*

venv: $(STAMP) ## make .venv with tarry and its development tools

demo: $(STAMP)-demo ## a thousand unpaid orders, two workers, one of them killed, on the embedded server
	@$(BIN)/tarry demo

serve: $(STAMP)-serve ## the service on 127.0.0.1:7070: HTTP API, metrics, embedded server
	@$(BIN)/tarry serve

SUITE = $(BIN)/python -m pytest $(call SIDE_BY_SIDE,5) --again $(call BESIDE,lint types-public) -m "not long"

test: packages venv ## lint, types of src and of what users import, the whole suite on every server but for the tests marked long
	@$(SUITE)

# make test-changed BASE=HEAD~3
test-changed: packages venv ## lint, types as in make test, and the tests that your branch can reach, by the imports (tests/changed.py); BASE= another commit
	@set -ef; tests=$$($(BIN)/python tests/changed.py $(if $(BASE),--base $(BASE))); \
	if [ -n "$$tests" ]; then $(SUITE) $$tests; else $(MAKE) --no-print-directory lint types-public; fi

check: venv ## the inner loop: lint, mypy of src, the library on the embedded server
	@$(BIN)/python -m pytest $(call SIDE_BY_SIDE,2) --again $(call BESIDE,lint mypy-src) -m "$(QUICK)" $(INNER)

test-long: packages venv $(STAMP)-dist ## all types, and the tests marked long: the whole model of the watch, long random games with the server, other job queues
	@$(BIN)/python -m pytest $(call SIDE_BY_SIDE,5) --again $(call BESIDE,types) -m long

# make test-oldest END=redis
test-oldest: packages venv ## the oldest version of each dependency: tests of what it is used for (tests/names/test_version_ranges.py); END= one
	@$(BIN)/python -m pytest --durations 0 -m long tests/names/test_version_ranges.py $(if $(END),-k "[$(END)]")

# make test-steady ROUNDS=3 WHOLE=6
test-steady: packages venv ## is the suite ever red for nothing? the racy tests 20 times on a busy machine; ROUNDS=, WHOLE= runs of make test
	@$(BIN)/python tests/steady.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WHOLE),--whole $(WHOLE))

# make prove MINUTES=120 ONLY=chaos,whole
prove: packages venv $(STAMP)-dist ## what a release is to have passed, on one tree of src: what fits into MINUTES=120; the next call continues
	@$(BIN)/python tools/prove.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY)) $(if $(ONCE_MORE),--once-more $(ONCE_MORE))

mutants: venv ## planted and drawn faults without a verdict: does the suite notice each? Continues where it was interrupted
	@cd tests && ../$(BIN)/python -m mutants

bench: venv ## measure the speed and print the table
	@$(BIN)/python -m bench

# make bench-peers PEERS="--quick --only rq --row burst"
bench-peers: venv ## tarry beside other job queues, each in an environment of its own (build/peers); writes docs/evidence/peers.md
	@$(BIN)/python -m bench.peers --write $(PEERS)

profile: venv ## count what an add, a pop, a finish consist of, and write docs/evidence/performance.md; five minutes, needs valgrind
	@$(BIN)/python -m bench.profiles --write docs/evidence/performance.md

# make chaos FAMILY=cluster MINUTES=10 SEED=7; make chaos ALL=1 runs all families and writes docs/evidence/reliability.md
CHAOS = $(if $(ALL),--all --write,$(if $(FAMILY),--family $(FAMILY))) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))
chaos: venv ## real processes under faults, and a checker of every job; ALL=1, FAMILY=, MINUTES=, SEED=
	@$(BIN)/python -m tests.chaos $(CHAOS)

# make drill MOMENT=disk
drill: venv ## two servers, a service and three workers that are broken under load: what doctor, /metrics and the log say, and when
	@$(BIN)/python tests/chaos/drill.py $(MOMENT)

lint: venv ## ruff, the formatter, the import contracts, the words of the prose, made modules and lists, unsteady tests, the commits
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python docs/prose.py
	@$(BIN)/python tools/options.py --check
	@$(BIN)/python tools/blocking.py --check
	@$(BIN)/python tests/unsteady.py
	@$(BIN)/python tools/commits.py

types: mypy ## mypy strict and basedpyright strict, of everything
	@$(BIN)/basedpyright

types-public: mypy-src
	@$(BIN)/basedpyright $(PUBLIC)

mypy: venv
	@echo "== types"
	@$(BIN)/mypy

mypy-src: venv
	@echo "== types of src"
	@$(BIN)/mypy src tests/typing

coverage: venv ## code that the suite does not reach; takes twice as long as the suite alone
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -m "not model and not long"
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

format: venv ## let ruff format and fix what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

blocking: venv ## write the options of add from their table, and make the blocking clients from the awaited ones
	@$(BIN)/python tools/options.py
	@$(BIN)/python tools/blocking.py

docs: $(STAMP)-docs ## write the generated reference pages, and the site with a search: build/site/index.html
	@echo "== docs/reference, from the code"
	@$(BIN)/python docs/generate.py
	@echo "== the site, from all pages"
	@$(BIN)/sphinx-build --fail-on-warning --quiet -c docs . build/site -d build/doctrees
	@echo "open $(CURDIR)/build/site/index.html"

pictures: venv ## record `tarry demo`, `tarry top` and the dashboard into docs/images; takes two minutes
	@$(BIN)/python docs/pictures.py

# pyroma misses an author's address, which costs two of its ten points; the address comes with the first release.
# The same commit gives the same bytes: the files have the commit's time.
dist: $(STAMP)-dist ## build wheel and sdist into dist, and check them; RELEASE=1 for what goes to an index
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m build --no-isolation
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl
	@$(BIN)/pyroma --min 8 .
	@if [ -n "$(RELEASE)" ] && grep -n 'repository = .*\.invalid/' pyproject.toml; then \
		echo "name the project's real address there first: docs/maintainers/release.md"; exit 1; fi

packages:
	@if [ "$${CI:-}" = true ]; then sh .ci/packages; fi

clean: ## remove .venv and everything that was built
	rm -rf .venv .mutants dist build .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
