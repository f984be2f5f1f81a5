# riverrun: `make demo` shows it, `make test` checks it. Needs Python 3.11 or later; uses uv when it is there.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV := $(shell command -v uv 2>/dev/null)
NEWEST_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# A name on the path may be a stub of a version manager, so each is tried, not only looked up.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(NEWEST_ENOUGH)' 2>/dev/null && echo "$$p" && break; done)
ARGS ?=
# Of tests: each has a broker, a database and a Spark of its own. Tests with a broker wait for four fifths of their
# time, those with Spark for a third: on two cores three workers keep both busy.
WORKERS ?= 3
# Tests start hundreds of processes, and each would compile what it imports: half of its time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test gate bench bench-windows bench-delivery bench-cluster bench-joins bench-patterns bench-restart replay-year chaos chaos-capture chaos-queue chaos-serve far fuzz-server soak yarn lock clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 24

install: $(STAMP) ## the virtual environment .venv, from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@'$(PYTHON)' -c '$(NEWEST_ENOUGH)' 2>/dev/null || { \
		echo "error: riverrun needs Python 3.11 or later; found $$('$(or $(PYTHON),python3)' --version 2>&1 || true)" >&2; \
		echo "hint: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 2; }
ifneq ($(UV),)
	@test -x $(BIN)/python || '$(UV)' venv --quiet --python '$(PYTHON)' $(VENV)
	'$(UV)' pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	'$(UV)' pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
else
	@test -x $(BIN)/pip || '$(PYTHON)' -m venv --clear $(VENV) || { \
		echo "hint: this Python cannot make virtual environments (Debian: apt install python3-venv)" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endif
	@touch $@

demo: install ## a live example with a real broker, on this machine
	$(BIN)/riverrun demo $(ARGS)

test: gate ## the checks, then all tests (ARGS="-k window" for some)
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadscope $(ARGS) || { \
		echo "what failed is run once more, alone: the others may have kept it from its processor" && \
		$(BIN)/pytest --last-failed --last-failed-no-failures=none --verbose $(ARGS); }

gate: install ## style, types, import layers, house rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_size.py
	$(BIN)/python scripts/check_house.py
	$(BIN)/python scripts/layers.py --check

bench: install ## events per second on this machine
	$(BIN)/riverrun bench window $(ARGS)

bench-windows: install ## hopping, session and sliding windows, next to plain PySpark
	$(BIN)/riverrun bench windows $(ARGS)

bench-delivery: install ## what exactly once costs, to Kafka and PostgreSQL
	$(BIN)/riverrun bench delivery $(ARGS)

bench-joins: install ## joins, next to Spark's own, with small and large tables
	$(BIN)/riverrun bench joins $(ARGS)

bench-patterns: install ## event patterns, next to windows and to a state machine per key
	$(BIN)/riverrun bench patterns $(ARGS)

bench-restart: install ## a start with 1 GB of state, and the speed of replay
	$(BIN)/riverrun bench restart $(ARGS)

bench-cluster: install ## two workers of a standalone cluster, next to local mode
	$(BIN)/riverrun bench cluster $(ARGS)

chaos: install ## 50 kills against a ledger (ARGS="--kills 10 --seed 7")
	$(BIN)/python tests/chaos.py $(ARGS)

chaos-capture: install ## kills while a database is captured (ARGS="--changes 50000 --seed 7")
	$(BIN)/python tests/chaos_capture.py $(ARGS)

chaos-queue: install ## 20,000 jobs for workers that are killed (ARGS="--jobs 2000 --seed 7")
	$(BIN)/python tests/chaos_queue.py $(ARGS)

chaos-serve: install ## clients that read their own writes, and kills (ARGS="--kills 12 --seed 7")
	$(BIN)/python tests/chaos_serve.py $(ARGS)

replay-year: install ## 5 million events of three topics, replayed, against DuckDB (ARGS="--batches 50000")
	$(BIN)/python tests/replay_year.py $(ARGS)

fuzz-server: install ## ten minutes of made-up requests
	FUZZ_SECONDS=600 $(BIN)/pytest tests/test_server_fuzz.py

# Each in a folder of its own: what the server needs is none of ours.
far: install ## checkpoints on S3 and HDFS: gets moto's server and Hadoop's, and kills jobs
	test -d .far/s3 || '$(PYTHON)' -m pip install --quiet --target .far/s3 'moto[server]==5.2.5'
	test -d .far/hdfs || '$(PYTHON)' -m pip install --quiet --target .far/hdfs hdfs-native==0.14.7 fsspec==2026.9.0
	$(BIN)/pytest -m slow tests/test_far_servers.py $(ARGS)

yarn: install ## a program on Hadoop's YARN, whose drivers and executors are killed
	$(BIN)/python -c 'from riverrun import config; from riverrun.embedded import jars; \
		jars.fetch("hadoop-minicluster", config.load())'
	$(BIN)/pytest -m slow tests/test_yarn.py $(ARGS)

soak: install ## memory over ten minutes of steady input
	$(BIN)/riverrun bench windows --soak 600 $(ARGS)

lock: ## requirements.lock anew, from pyproject.toml (needs uv)
	@test -n '$(UV)' || { echo "error: make lock needs uv" >&2; exit 2; }
	'$(UV)' pip compile --quiet --upgrade --universal --python-version 3.11 --group dev \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--output-file requirements.lock pyproject.toml

clean: ## remove .venv and caches; data in .riverrun stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
