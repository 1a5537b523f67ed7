# `make demo` and `make test` set everything up by themselves; they need Python 3.11 or newer, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint prove certify bench coverage wheel lock clean

demo: $(READY)
	@$(BIN)/evopolicygym demo

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The long proofs: whole episodes on every task, a thousand episodes in one worker, trivial policies, certificates,
# and of the judge: random kills, eight runs at once, hostile requests, memory (figures: docs/reliability.md).
prove: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal -m slow --timeout 3600

# The large certificate of the fast environments: hundreds of episodes of each, compared bit for bit with stock.
certify: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal -m slow --timeout 3600 tests/fast

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/engine.py --scaling
	$(BIN)/python benchmarks/fast.py
	$(BIN)/python benchmarks/fast.py --suite
	$(BIN)/python benchmarks/submit.py
	$(BIN)/python benchmarks/suite.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/leaderboard.py

# Measured coverage of the intervals, for docs/statistics.md.
coverage: $(READY)
	$(BIN)/python benchmarks/coverage.py

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

lock: $(READY)
	@echo "# Exact versions of everything that \`make\` installs. Regenerate: make lock" > requirements.lock
	@$(BIN)/pip freeze --exclude evopolicygym >> requirements.lock

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "EvoPolicyGym needs Python 3.11 or newer; set PYTHON=")'
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

clean:
	rm -rf $(VENV) dist build
