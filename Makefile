SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3.11
BIN := .venv/bin
# With uv, or with pip where uv cannot be had. A file that has another hash than the lock's is refused.
INSTALL := $(BIN)/python -m devstack.install
LOCKED := $(INSTALL) --require-hashes
JARS := $(BIN)/python -m tideline.launch.jars
READY := .venv/.ready
TESTS_READY := .venv/.ready-tests
# Each line of a recipe is a shell of its own, so SECONDS are that line's.
TOOK = (( SECONDS < 2 )) || echo "$(1): $$SECONDS s"

# Java and jars may vanish after setup, so they are looked for each time; that is quick if they are there.
define JAVA
	@$(BIN)/python -m tideline.launch.java || { $(LOCKED) -r requirements/java.txt; $(call TOOK,Java); }
endef

# Spark's first start, and each later one, loads its classes from there.
define ARCHIVE
	@$(BIN)/python -m tideline.launch.jvm; $(call TOOK,archive of Spark's classes)
endef

# Where Python is told to write no bytecode, each process would else compile 300 files of ours.
define BYTECODE
	@$(BIN)/python -m compileall -q plugins dags spark_jobs devstack
endef

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## What a run and the demo need: packages, Java if there is none, jars
	$(JAVA)
	@$(JARS) broker; $(call TOOK,jars)
	$(BYTECODE)
	$(ARCHIVE)

$(READY): requirements.txt requirements/demo.txt requirements/uv.txt pyproject.toml plugins/tideline/versions.py
	@command -v $(PYTHON) > /dev/null || { echo "make: $(PYTHON) not found; install Python 3.11 or set PYTHON=" >&2; exit 2; }
	@echo "installing packages into .venv, then jars: a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv; $(call TOOK,environment)
	@$(LOCKED) -r requirements.txt -r requirements/demo.txt; $(call TOOK,packages)
	@$(INSTALL) --no-build-isolation --editable .; $(call TOOK,Tideline itself)
	@touch $@

setup-tests: $(TESTS_READY)  ## What tests and checks need besides: packages, jars, a schema registry; 250 MB
	$(JAVA)
	@$(JARS) broker delta s3proxy; $(call TOOK,jars)
	$(BYTECODE)
	$(ARCHIVE)
	@PYTHONPATH=plugins:. $(BIN)/python -m devstack.registry_program; $(call TOOK,schema registry)

$(TESTS_READY): $(READY) requirements/dev.txt
	@$(LOCKED) -r requirements/dev.txt; $(call TOOK,packages for tests)
	@touch $@

demo: setup  ## Land sample events through a real broker, Airflow and Spark, and prove it
	$(BIN)/tideline demo

up: setup  ## Start a broker and Airflow to look around; facts in .stack.json
	$(BIN)/python -m devstack.stack up

down: $(READY)  ## Stop what `make up` started and remove its data and stream files
	$(BIN)/python -m devstack.stack down

check: $(TESTS_READY)  ## Lint, and the tests without a broker or a JVM, at once: some 80 seconds
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target lint test-values test-histories

test-light: test-values test-histories

test-values: $(TESTS_READY)
	$(BIN)/pytest -o cache_dir=.pytest_cache/values $(wildcard tests/unit tests/property)

test-histories: $(TESTS_READY)
	$(BIN)/pytest -o cache_dir=.pytest_cache/histories $(wildcard tests/dags tests/simulation tests/steps)

test: $(TESTS_READY)  ## Lint, then all tests but the slow suites, part by part, three at once; each part: python -m tests --help
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target setup-tests lint
	$(BIN)/python -m tests

test-faults: setup-tests  ## Every fault of the catalogue and every crash, as tables; slow tests of other suites; PARTS=
	PARTS="$(PARTS)" $(BIN)/python -m tests.slow

test-connect: setup-tests  ## The Spark suite once more, through a warm Spark Connect server
	TIDELINE_TEST_SPARK=connect $(BIN)/pytest tests/spark -m ""

test-wheel: setup-tests  ## The wheel in fresh environments: every Python and Airflow, an hour; downloads
	PYTHONPATH=plugins:. $(BIN)/python -m tests.wheel $(ARGS)

test-store: setup-tests  ## The Spark and fault suites file by file, tables in a real object store: STORE=s3|azure|google FILES=
	$(BIN)/python -m tests.in_store $(STORE) $(FILES)

test-cluster: setup-tests  ## Spark standalone and YARN that share no disk with the driver; as root
	$(BIN)/pytest tests/cluster -m ""

test-compose: setup-tests  ## docker-compose.yaml's very commands, without Docker; as root
	$(BIN)/pytest tests/compose -m ""

test-canary: setup-tests  ## Plant a secret of each kind in a whole stack, crash it, and look everywhere
	$(BIN)/pytest tests/canary -m ""

test-cdc: setup-tests  ## A real PostgreSQL and a real Debezium, the database as judge; then serializers of others; 110 MB of jars
	$(LOCKED) --upgrade --target .wire -r requirements/wire.txt
	$(BIN)/pytest tests/cdc tests/wire -m ""

test-lineage: setup-tests  ## OpenLineage's provider for Airflow, beside the environment of all other tests
	$(LOCKED) --upgrade --target .lineage -r requirements/lineage.txt
	$(BIN)/pytest tests/lineage -m ""

test-catalog: setup-tests  ## Names in a Hive metastore, and in Glue as moto has it
	$(LOCKED) --upgrade --target .catalog -r requirements/catalog.txt
	$(BIN)/pytest tests/catalog -m ""

test-browser: setup-tests  ## Answer an approval on Airflow's page in a real Chromium
	@command -v chromium > /dev/null || { echo "installing Debian's chromium"; apt-get update -qq && apt-get install -y -qq chromium > /dev/null; }
	$(LOCKED) -r requirements/browser.txt
	TIDELINE_SCREENSHOTS=.screenshots $(BIN)/pytest tests/browser -m ""

soak: setup-tests  ## Everything at once in a seeded order: SEED=1 MINUTES=10 LEDGER=delta
	PYTHONPATH=plugins:dags:spark_jobs $(BIN)/python -m tests.soak --seed $(or $(SEED),1) \
	  --minutes $(or $(MINUTES),10) --ledger $(or $(LEDGER),delta) $(if $(ACTIONS),--actions $(ACTIONS))

simulation: $(TESTS_READY)  ## Random histories in a simulated world: SEED=1 MINUTES=10
	PYTHONPATH=plugins:. $(BIN)/python -m tests.simulation --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10)

fuzz: setup-tests  ## Random histories of changes, folded, against a definition: SEED=1 MINUTES=10
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m tests.fuzz --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10)

bench: setup-tests  ## Against the peers, hours; goes on where it was cut off; writes docs/benchmarks.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench $(NAMES)

bench-quick: setup-tests  ## The small comparisons only, under ten minutes
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench --quick

bench-fold: setup-tests  ## Changes into a current table, beside MERGE of Spark and of delta-rs; ROWS=20000000; writes docs/current.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.folding --rows $(or $(ROWS),5000000)

bench-fleet: setup-tests  ## Hundreds of topics by shards, by Dags and in a shell: TOPICS=300; writes docs/how-to/many-topics.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.fleet --topics $(or $(TOPICS),300)

bench-lag: setup-tests  ## From a record to the run that lag has started; writes docs/airflow.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.lag

bench-expectations: setup-tests  ## What five expectations cost the decoding; writes docs/how-to/expectations.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.expectations

bench-types: setup-tests  ## What five event types of a topic cost against one; writes docs/how-to/what-producers-write.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.event_types

bench-erase: setup-tests  ## A thousand keys out of twenty million rows, and one key; writes docs/how-to/erase.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.erasing

bench-executors: setup-tests  ## One topic landed by 1, 2 and 4 executors of a cluster; as root; writes docs/clusters.md
	$(LOCKED) -r requirements/bench.txt
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m bench.executors

mutants: setup-tests  ## Take each check out: some test must turn red
	$(BIN)/python -m tests.mutants

kill-matrix: setup-tests  ## Which light suite notices which mutant; goes on where it was cut off; writes tests/mutants/matrix.tsv
	nice -n 5 $(BIN)/python -m tests.mutants.matrix $(if $(MINUTES),--minutes $(MINUTES))

lint: $(TESTS_READY)  ## ruff, mypy, import contracts, spelling, the pages' site, compose file, JSON Schema
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m devstack.docstrings
	$(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yaml
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/check-jsonschema --schemafile docs/stream.schema.json dags/streams/*.yaml docker/streams/*.yaml

docs: $(TESTS_READY)  ## Build the pages as a site, strictly, into .site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(TESTS_READY)  ## Format the code, mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(TESTS_READY)  ## Write docs/stream.schema.json, docs/fleet.schema.json, docs/output.schema.json and docs/page.openapi.json from the models; tests/data/golden
	$(BIN)/python -m tideline.stream.stream > docs/stream.schema.json
	$(BIN)/python -m tideline.stream.fleet_file > docs/fleet.schema.json
	$(BIN)/python -m tideline.contract.output_schema > docs/output.schema.json
	PYTHONPATH=plugins:. $(BIN)/python -m devstack.page_api docs/page.openapi.json
	PYTHONPATH=plugins:dags:. $(BIN)/python -m tests.dags.golden

reference: $(TESTS_READY)  ## Write docs/reference and the A-Z of errors from the models, the command line, errors and tables
	PYTHONPATH=plugins:. $(BIN)/python -m devstack.reference

metrics: $(TESTS_READY)  ## Write the table of metrics into docs/observability.md
	$(BIN)/python -m tideline.model.metrics docs/observability.md

lock: $(TESTS_READY)  ## Resolve requirements*.in into fully pinned, hashed requirements*.txt
	for name in requirements requirements/{uv,demo,dev,bench,browser,java}; do \
	  $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --python-version 3.11 --no-header $$name.in -o $$name.txt; \
	done
	for name in requirements/{lineage,catalog,wire}; do \
	  $(BIN)/uv pip compile --quiet --no-deps --generate-hashes --python-version 3.11 --no-header $$name.in -o $$name.txt; \
	done

pins: $(TESTS_READY)  ## Write coordinate and SHA-256 of every jar of versions.py into plugins/tideline/launch/jars.sha256
	$(JAVA)
	PYTHONPATH=plugins:. $(BIN)/python -m devstack.jar_pins

classes: $(TESTS_READY)  ## Note which classes a Spark driver loads, for the archive that setup writes, into plugins/tideline/launch/spark-classes.xz
	PYTHONPATH=plugins:dags:spark_jobs:. $(BIN)/python -m devstack.class_list

wheel: $(READY)  ## Build dist/tideline-*.whl, and dist/constraints.txt: the versions that all tests run with
	rm -rf dist build plugins/*.egg-info
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build plugins/*.egg-info
	grep -oE '^[A-Za-z0-9._-]+==[^ ]+' requirements.txt > dist/constraints.txt
	@ls dist

bill-of-materials: setup-tests  ## Write dist/tideline.cdx.json: every package and jar that runs, CycloneDX 1.6
	PYTHONPATH=plugins:. $(BIN)/python -m devstack.supply_chain.bill_of_materials dist/tideline.cdx.json

audit-dependencies: setup-tests  ## Ask osv.dev for advisories about every package and jar that runs
	PYTHONPATH=plugins:. $(BIN)/python -m devstack.supply_chain.audit

clean:  ## Remove the environment and caches of this checkout
	rm -rf .venv .kill-matrix .catalog .lineage .wire .mypy_cache .pytest_cache .test-results .ruff_cache .hypothesis .import_linter_cache .site build dist plugins/*.egg-info spark-warehouse

.PHONY: help setup setup-tests demo up down check test-light test-values test-histories test test-faults test-connect test-cluster test-compose test-store test-wheel test-canary test-browser test-cdc test-lineage test-catalog soak simulation fuzz bench bench-quick mutants kill-matrix lint docs format schema reference lock wheel bill-of-materials audit-dependencies clean bench-executors bench-fold bench-expectations bench-types bench-erase pins metrics
