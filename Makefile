# Each target does its own set-up on a fresh machine, `make demo`, `make chat` and `make test` among them.
# They need Python 3.11+, make and the package registries. Node is used where it is present.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PEERS  := .cache/peers
LIVE   := .cache/live

.PHONY: demo chat test check quick bench docs fuzz mutants soak matrix format lint types floors clean

demo: $(VENV)/installed            ## run the embedded agent: no key, no network
	@$(VENV)/bin/handrail demo

chat: $(VENV)/installed            ## talk to the embedded agent
	@$(VENV)/bin/handrail chat

test: $(VENV)/installed-dev $(PEERS)/ready $(LIVE)/ready   ## every test
	$(PY) -m pytest

quick: $(VENV)/installed-dev       ## a look at every part, in under 20 s
	HANDRAIL_EVENT_LOOPS=asyncio $(PY) -m pytest -q --sample 1 --timeout 20 tests/run tests/loop tests/transcript tests/client tests/server tests/agui \
	  --ignore tests/agui/test_fuzz.py --ignore tests/agui/test_schema.py

check: $(VENV)/installed-dev format lint types floors test   ## everything that must be true before a commit

format: $(VENV)/installed-dev
	$(PY) -m ruff format --check .

lint: $(VENV)/installed-dev
	$(PY) -m ruff check .

types: $(VENV)/installed-dev
	$(PY) -m pyright

floors: $(VENV)/installed-dev
	$(VENV)/bin/lint-imports

bench: $(VENV)/installed-dev       ## measure; prints a table
	$(PY) -m benchmarks

docs: $(VENV)/installed-docs       ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

LONGER ?= 50
fuzz: $(VENV)/installed-dev        ## the property tests, interleavings and faults, LONGER times as long as in `make test`
	HANDRAIL_FUZZ=$(LONGER) $(PY) -m pytest -s --timeout 0 tests/agui/test_fuzz.py tests/agui/test_fuzz_budget.py tests/agui/test_schema.py \
	  tests/testing/test_interleavings_of_a_run.py tests/testing/test_interleavings_of_a_session.py \
	  tests/faults

SAMPLE ?= 12
mutants: $(VENV)/installed-dev     ## break the rules one thing at a time, and see whether a test notices
	$(PY) -m tests.mutation --sample $(SAMPLE) --record

soak: $(VENV)/installed-dev        ## 20,000 runs and 2,000 sessions, and what is left of them; eight minutes
	$(PY) -m tests.endurance

matrix: $(VENV)/installed-matrix   ## a sample of the tests on every Python, event loop and range of versions; WHOLE=1: all
	$(PY) -m tests.matrix $(if $(WHOLE),--whole)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "handrail needs Python 3.11 or newer; name one with PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip

# The demo and the chat need no more than this, and come up in a minute.
$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --editable '.[chat]'
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --editable '.[all]' --group dev
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --group docs
	@touch $@

$(VENV)/installed-matrix: pyproject.toml | $(VENV)/installed-dev
	$(PY) -m pip install --quiet --group matrix
	@touch $@

# Programs of others' making that tests run against. Without npm the tests that need them skip and say so.
$(PEERS)/ready: Makefile
	@mkdir -p $(PEERS)
	@if command -v npm >/dev/null 2>&1; then \
	  npm install --silent --no-audit --no-fund --prefix $(PEERS) @copilotkit/aimock@1.43.0 @ag-ui/client@1.0.0; \
	else echo "npm is not here: tests against aimock and the TypeScript client will skip"; fi
	@touch $@

# Environments for servers of others' making: a minute each, once. Where they cannot be made, the tests skip and say so.
$(LIVE)/ready: tests/live/environments.py | $(VENV)/installed-dev
	@mkdir -p $(LIVE)
	@$(PY) -m tests.live.environments
	@touch $@

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis dist site
