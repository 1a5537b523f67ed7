# `make demo` and `make test` set everything up by themselves. They need Python 3.11 or newer, and nothing else; where uv
# is installed they use it, which takes seconds instead of minutes.
PYTHON ?= python3
VENV := .venv
RL := .venv-rl
TORCH ?= torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(shell command -v uv)
# Processes of `make test`, on two cores: tests wait half of their time, for disks, timeouts and other processes.
WORKERS ?= 3
CHECK_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "EvoPolicyGym needs Python 3.11 or newer; set PYTHON=")'

.PHONY: setup demo test check lint prove prove-rl certify bench bench-rl coverage coverage-report wheel lock clean

# The virtual environment alone. Every other target does this first.
setup: $(READY)

demo: $(READY)
	@$(BIN)/evopolicygym demo

test: lint
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# The fast loop: lint, types, and the tests of what changed since $BASE (main). Under two minutes on two cores: tests
# that did not start within 75 seconds are skipped, and counted.
check: lint
	tests=$$($(BIN)/python tests/changed_tests.py) && $(BIN)/pytest -q -n 2 --dist worksteal --within 75 $$tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The long proofs: whole episodes on every task, a thousand episodes in one worker, trivial policies, certificates,
# and of the judge: random kills, eight runs at once, hostile requests, memory (figures: docs/reliability.md).
prove: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow --timeout 3600
	$(MAKE) prove-rl

# The same for learners that need torch, in an environment of their own: torch takes minutes to install.
prove-rl: $(RL)/.ready
	$(RL)/bin/pytest -n 2 --dist worksteal -m slow --timeout 3600 tests/baselines/test_rl.py

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
	$(BIN)/python benchmarks/recording.py
	$(MAKE) bench-rl

# Environments of `baseline curve` against those of Stable-Baselines3, which needs torch.
bench-rl: $(RL)/.ready
	$(RL)/bin/python benchmarks/baseline_environments.py

# Measured coverage of the intervals, for docs/coverage.md and docs/statistics.md.
coverage: $(READY)
	$(BIN)/python benchmarks/coverage.py

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

# Which lines the tests reach, also in the processes that they start.
coverage-report: $(READY)
	rm -f .coverage .coverage.*
	COVERAGE_PROCESS_START=pyproject.toml $(BIN)/coverage run -m pytest -n 2 --dist worksteal
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --sort=cover

# Needs uv. Versions that are still allowed stay as they are; `make lock UPGRADE=--upgrade` takes the newest.
lock:
	uv pip compile pyproject.toml --extra dev --extra ray --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --custom-compile-command "make lock" $(UPGRADE) --output-file requirements.lock --quiet

ifdef UV
$(READY): pyproject.toml requirements.lock
	@$(CHECK_PYTHON)
	@echo "setting up $(VENV) with uv (once)"
	@uv venv --quiet --clear --python "$(PYTHON)" $(VENV)
	@VIRTUAL_ENV=$(VENV) uv pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	@VIRTUAL_ENV=$(VENV) uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)
else
$(READY): pyproject.toml requirements.lock
	@$(CHECK_PYTHON)
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)
endif

$(RL)/.ready: pyproject.toml requirements.lock
	@$(CHECK_PYTHON)
	@echo "setting up $(RL) with torch (once, some minutes)"
	@$(PYTHON) -m venv $(RL)
	@$(RL)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.lock
	@$(RL)/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	@$(RL)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[rl]'
	@touch $(RL)/.ready

clean:
	rm -rf $(VENV) $(RL) dist build
