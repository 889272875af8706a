# One command is enough on a bare machine: every target below first makes .venv from the
# pinned versions in constraints.txt. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests run on all cores; JOBS=0 keeps them in one process (for a debugger).
JOBS ?= auto
# How long make fuzz and make soak run. For fuzz, SEED repeats a run and TARGET names one target of
# tests/fuzz/targets.
SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup demo test e2e oracle browser fuzz soak check fix pins bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Moorage needs Python 3.11 or newer; PYTHON=... chooses one" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# An installed package comes compiled; a checkout would compile at the first start of each command.
	$(BIN)/python -m compileall -q src
	@touch $(STAMP)

setup: $(STAMP) ## Make .venv with the pinned dependencies

demo: setup ## Run a whole sample cluster in one process, then explain a pod that stays pending
	$(BIN)/moorage up --sample --once
	$(BIN)/moorage explain pod batch/archive-0 --sample || test $$? -eq 3

test: setup ## Run the tests (under five minutes on two cores)
	$(BIN)/python -m pytest -q -n $(JOBS)

e2e: setup ## Compare with kube-scheduler on a real API server (builds both once, with Go)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[e2e]'
	$(BIN)/python -m pytest -q -n 0 tests/e2e
	MOORAGE_EVERY_CASE=1 $(BIN)/python -m pytest -q -n $(JOBS) tests/explain/test_fixes_golden.py tests/explain/test_explain_golden.py tests/parity/test_golden_cases.py
	$(MAKE) oracle browser

oracle: setup ## Ask upstream's own plugins again about recorded decisions (builds them once, with Go)
	PYTHONPATH=tests $(BIN)/python -m oracle.recompute

browser: setup ## Try the page in a real Chromium (SCREENSHOTS=1 renews the pictures in docs/images)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	MOORAGE_SCREENSHOTS=$(SCREENSHOTS) $(BIN)/python -m pytest -q -n 0 tests/browser

fuzz: setup ## Send hostile inputs through every part (SECONDS=600, SEED=..., TARGET=..., JOBS=2)
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(TARGET),--target $(TARGET)) $(if $(filter-out auto,$(JOBS)),--jobs $(JOBS))

soak: setup ## Run processes under churn and faults for SECONDS=600; memory is plotted to build/soak
	PYTHONPATH=tests:src $(BIN)/python -m soak --seconds $(SECONDS)
	PYTHONPATH=tests:src $(BIN)/python -m soak --seconds $(SECONDS) --up --folder build/soak/up

check: setup ## Formatting, lint, types and import contracts, as CI runs them
	$(BIN)/ruff format --check . || { echo 'make fix formats the code'; exit 1; }
	$(BIN)/ruff check . || { echo 'make fix mends what can be mended by machine'; exit 1; }
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: setup ## Format the code and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# For Python 3.11 and newer on every platform; no header and no index, so that only versions and
# hashes are in the files, wherever they are made.
PIN = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --constraints constraints.txt

pins: setup ## Write deploy/*requirements.txt, the hashes of what constraints.txt pins
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pins]'
	$(PIN) --extra page --output-file deploy/requirements.txt pyproject.toml
	printf 'setuptools\n' | $(PIN) --output-file deploy/build-requirements.txt -

bench: setup ## Measure the engine on every workload at 5,000 nodes
	@for workload in mixed distinct statefulset basic spread prefspread affinity antiaffinity prefaffinity; do \
		$(BIN)/moorage bench engine --nodes 5000 --pods 2000 --workload $$workload || exit 1; \
	done

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .ruff_cache .mypy_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
