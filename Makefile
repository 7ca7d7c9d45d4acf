# make demo, make test, make check; `make help` lists the rest.

# The Python that .venv is made of, 3.11 or newer.
PYTHON ?= python3

BIN := .venv/bin
READY := .venv/.ready
CODE := $(wildcard src tests examples benchmarks)

.DEFAULT_GOAL := help
.PHONY: help setup java demo test laws laws-spark kills bank failover soak check types bench bench-operators bench-promises bench-merge bench-recursion bench-consistency bench-spark lock clean

help:
	@echo 'make demo    run examples/flights.py'
	@echo 'make test    run the tests, the doctests and the snippets of README.md and docs/'
	@echo 'make laws    the laws, 2,000 examples for every operator and output latency; the theorems'
	@echo 'make laws-spark  the laws on Spark, every case, EXAMPLES=3 of each'
	@echo 'make kills   kill the driver of a query on Spark twenty times, both executors of another, four queries at once'
	@echo 'make bank    the bank test on Spark with ROWS=1000000: in one query, and in seven that meet in directories'
	@echo 'make failover  three replicas on Spark, two killed, and the answer that goes on'
	@echo 'make soak    a query on Spark for MINUTES=20 at a steady rate, and what memory it takes'
	@echo 'make check   lint, format, types, layers'
	@echo 'make bench   compare with peers, as ratios (bench-operators: every operator; bench-promises; bench-merge; bench-recursion; bench-consistency; bench-spark)'
	@echo 'make setup   only make .venv'
	@echo 'make lock    resolve pyproject.toml into requirements.lock (UPGRADE=1: newest versions)'
	@echo 'make clean   remove .venv and every cache'
	@echo 'PYTHON=...   the Python that .venv is made of (now: $(PYTHON))'

setup: $(READY)

$(READY): requirements.lock pyproject.toml scripts/setup-venv.sh
	@scripts/setup-venv.sh '$(PYTHON)'
	@touch $@

java:
	@scripts/ensure-java.sh

demo: java $(READY)
	@$(BIN)/python examples/flights.py

# Frames are tiny there, and polars' threads would only wait for each other.
test: java $(READY)
	@POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(READY)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(MAKE) --no-print-directory types
	@$(BIN)/lint-imports --no-logo

types: $(READY)
	@$(BIN)/mypy $(CODE)

laws: $(READY)
	@SLACKWATER_PROFILE=laws POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/test_laws.py tests/test_pattern_laws.py tests/test_pattern_keep.py tests/test_interest.py tests/distributed/test_feedback.py tests/test_merge_laws.py tests/test_merge_scripts.py tests/test_merge_verdicts.py tests/operators/test_merge_feedback.py tests/test_theorems.py tests/plan/test_consequences.py tests/operators/test_finalize.py tests/operators/test_mend.py tests/test_consistency_laws.py

EXAMPLES ?= 3
laws-spark: java $(READY)
	@SLACKWATER_SPARK_EXAMPLES=$(EXAMPLES) POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -n 0 tests/spark/test_laws_on_spark.py

ROWS ?= 1000000
bank: java $(READY)
	@$(BIN)/python examples/bank.py spark $(ROWS)
	@$(BIN)/python -m examples.bank_apart $(ROWS)

SECONDS_OF ?= 60
failover: java $(READY)
	@$(BIN)/python examples/failover.py $(SECONDS_OF)

kills: java $(READY)
	@SLACKWATER_KILLS=20 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -s -n 0 tests/spark/test_exactly_once.py tests/spark/test_cluster.py tests/spark/test_aligned_kills.py

MINUTES ?= 20
soak: java $(READY)
	@$(BIN)/python -m benchmarks.soak $(MINUTES)

bench: $(READY)
	@$(BIN)/python -m benchmarks.conversions

bench-operators: $(READY)
	@$(BIN)/python -m benchmarks.operators
	@$(BIN)/python -m benchmarks.operators one
	@$(BIN)/python -m benchmarks.operators growth

FIGURES ?= figures
bench-promises: $(READY)
	@$(BIN)/python -m benchmarks.closings
	@$(BIN)/python -m benchmarks.warehouse $(FIGURES)

bench-merge: $(READY)
	@$(BIN)/python -m benchmarks.merge --figures $(FIGURES)

bench-recursion: $(READY)
	@$(BIN)/python -m benchmarks.recursion --figures $(FIGURES)

bench-consistency: $(READY)
	@$(BIN)/python -m benchmarks.consistency --figures $(FIGURES)

bench-spark: java $(READY)
	@$(BIN)/python -m benchmarks.spark

# Versions already in requirements.lock are kept where pyproject.toml permits them.
lock: $(READY)
	@echo 'Resolving pyproject.toml into requirements.lock'
	@$(BIN)/uv pip compile --quiet pyproject.toml --all-extras --group dev \
		--python-version 3.11 --no-header --no-annotate $(if $(UPGRADE),--upgrade) \
		--output-file requirements.lock > /dev/null

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
