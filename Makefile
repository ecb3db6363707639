# Each target sets up what it needs in a virtual environment, .venv, from the pinned and hashed requirements/.
# To use another interpreter: make test PYTHON=/path/to/python3.12

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start some hundred Python processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m
INSTALL := $(RUN) pip install --quiet

# Each stamp marks an installation; it is redone when a pin or the project's metadata changes.
RUNTIME := $(VENV)/.runtime
TEST := $(VENV)/.test
BENCH := $(VENV)/.bench
DEV := $(VENV)/.dev

# The marks of tests that need another framework, which is not installed there.
FRAMEWORK_MARKS := (mem0 or langgraph or openai_agents or server)

# The file that names where the tests with a mark are: pytest collects these paths only, in each of its processes.
# tests/support/paths.py holds that no such test is elsewhere.
paths = @tests/paths/$(1).txt

PYTEST_ARGS ?=
BENCH_ARGS ?=

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(RUNTIME) ## Show what the memory does, without a server, key or model.
	@$(BIN)/agent-reminiscence demo

.PHONY: test
test: $(TEST) sync ## Run the tests, and the code in README.md, docs/ and docstrings; no other server. PYTEST_ARGS="-k name"
# Each file stays on one worker: later blocks of a document use names from earlier ones.
	@rm -f $(COSTS)
	@$(RUN) pytest --everyday --costs $(COSTS) -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# What the last run of `make test` has measured.
COSTS := build/test-costs.json

.PHONY: check-costs
check-costs: $(TEST) ## After make test: list tests that cost far more processor time than make test allows one.
	@echo "check: costs of tests"
	@$(BIN)/python scripts/check_costs.py $(COSTS)

.PHONY: test-servers
test-servers: $(TEST) ## Run the tests that need a real Neo4j, Ollama or PgBouncer. The first run builds them, in 15 minutes.
	@$(RUN) pytest -m "(neo4j or ollama or pooler) and not $(FRAMEWORK_MARKS)" -n auto --dist loadfile \
		$(call paths,neo4j) $(call paths,ollama) $(call paths,pooler) $(PYTEST_ARGS)

.PHONY: test-ollama
test-ollama: $(TEST) ## Run the tests that need a real Ollama. The first run builds it, which takes about ten minutes.
	@$(RUN) pytest --fail-on-skip -m "ollama and not $(FRAMEWORK_MARKS)" --durations=10 $(call paths,ollama) $(PYTEST_ARGS)

# Each framework has an environment of its own, because its dependencies are not ours.
FRAMEWORKS := mem0 langgraph openai-agents server
FRAMEWORK_TESTS := $(FRAMEWORKS:%=test-%)

.PHONY: $(FRAMEWORK_TESTS)
test-mem0: ## Run the tests that need mem0, in an environment of their own; a few need Ollama as well.
test-langgraph: ## Run the tests that need LangGraph, in an environment of their own.
test-openai-agents: ## Run the tests that need the OpenAI Agents SDK, in an environment of their own.
test-server: ## Run the tests of the server that need a browser, npm's tools or schemathesis, in an environment of their own.

# What the extra brings, whose licences are checked.
test-mem0: BROUGHT := mem0ai
test-langgraph: BROUGHT := langgraph-checkpoint
test-openai-agents: BROUGHT := openai-agents
# The extra is part of `all`, so `make check` checks its licences.
test-server: BROUGHT := agent-reminiscence-ledger

$(FRAMEWORK_TESTS): test-%: build/%-tests/.installed
	@build/$*-tests/bin/python scripts/check_licences.py $(BROUGHT)
	@build/$*-tests/bin/python -m pytest -m $(subst -,_,$*) -n auto --dist loadfile $(call paths,$(subst -,_,$*)) $(PYTEST_ARGS)

$(FRAMEWORKS:%=build/%-tests/bin/python): build/%-tests/bin/python:
	@sh scripts/make_venv.sh build/$*-tests $(PYTHON)

$(FRAMEWORKS:%=build/%-tests/.installed): build/%-tests/.installed: requirements/%.txt requirements/build.txt \
		pyproject.toml | build/%-tests/bin/python
	@echo "Installing the package, $* and their dependencies into build/$*-tests …"
	@build/$*-tests/bin/python -m pip install --quiet --require-hashes --no-deps -r $< -r requirements/build.txt
	@build/$*-tests/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: environments
environments: $(FRAMEWORKS:%=build/%-tests/.installed) ## Make the environments of all frameworks.

NEWEST := build/newest-tests
# They need no framework but what `make test` has; the newest releases of these may differ from what is pinned.
NEWEST_TESTS := tests/unit/agents $(wildcard tests/integration/pydantic_ai tests/integration/server)

.PHONY: test-newest
test-newest: | $(NEWEST)/bin/python ## Run the tests of all frameworks with their newest releases, which nothing pins.
	@echo "Installing the newest releases into $(NEWEST) …"
	@$(NEWEST)/bin/python scripts/install_newest.py
	@$(NEWEST)/bin/python -m pytest -m "$(FRAMEWORK_MARKS) and not ollama and not server" -n auto --dist loadfile \
		$(call paths,mem0) $(call paths,langgraph) $(call paths,openai_agents) $(PYTEST_ARGS)
	@$(NEWEST)/bin/python -m pytest -n auto --dist loadfile $(NEWEST_TESTS) $(PYTEST_ARGS)

$(NEWEST)/bin/python:
	@sh scripts/make_venv.sh $(NEWEST) $(PYTHON)

.PHONY: test-thorough
test-thorough: $(TEST) ## Run what make test leaves out because it takes long: tests/chaos with reduced counts, and more.
	@$(RUN) pytest -m "(chaos or thorough) and not neo4j and not ollama and not $(FRAMEWORK_MARKS)" -n auto --dist loadfile \
		$(call paths,thorough) $(PYTEST_ARGS)

.PHONY: test-injection
test-injection: $(TEST) ## Try every text that gives instructions on each agent; make test tries a sixth of them.
	@$(RUN) pytest -n auto tests/acceptance/test_injection.py $(PYTEST_ARGS)

# One test kills two hundred processes, one after the other.
FULL_CHAOS := --full-chaos --timeout=3600 -o faulthandler_timeout=3660

.PHONY: chaos
chaos: $(TEST) ## Run tests/chaos with full counts: kills, tampering, erasure, random histories. Takes about 20 minutes.
	@$(RUN) pytest -n auto --dist loadfile $(FULL_CHAOS) --durations=20 tests/chaos \
		tests/acceptance/test_ending_spoilers.py $(PYTEST_ARGS)

.PHONY: chaos-jobs
chaos-jobs: $(TEST) ## Kill workers and the server for two minutes while memories change; is all work done exactly once?
	@$(RUN) pytest -s $(FULL_CHAOS) tests/chaos/test_jobs.py $(PYTEST_ARGS)

.PHONY: chaos-graph
chaos-graph: $(TEST) ## Stop, kill, freeze and empty a real Neo4j under load; is the graph complete? Takes minutes.
	@$(RUN) pytest -s $(FULL_CHAOS) tests/chaos/test_graph.py $(PYTEST_ARGS)

.PHONY: chaos-reembed
chaos-reembed: $(TEST) ## Kill the process that re-embeds 10,000 chunks; does any search fail, is any vector missing?
	@$(RUN) pytest -s $(FULL_CHAOS) tests/chaos/test_reembed.py $(PYTEST_ARGS)

.PHONY: check
check: check-format check-lint check-types check-imports check-project check-image docs ## Run all checks except the tests.

.PHONY: check-format
check-format: $(DEV)
	@echo "check: format"
	@$(RUN) ruff format --check .

.PHONY: check-lint
check-lint: $(DEV)
	@echo "check: lint"
	@$(RUN) ruff check --quiet .

.PHONY: check-types
check-types: $(DEV) sync
	@echo "check: types"
	@$(RUN) mypy

.PHONY: check-imports
check-imports: $(DEV) sync
	@echo "check: imports point down"
	@$(BIN)/lint-imports --no-logo

.PHONY: check-project
check-project: $(DEV) sync
	@echo "check: dependencies, licences, repository, wheel, board and alerts, compose file"
	@$(BIN)/python scripts/check_dependencies.py
	@$(BIN)/python scripts/check_licences.py
	@$(BIN)/python scripts/check_repository.py
	@$(BIN)/python scripts/check_wheel.py
	@$(BIN)/python scripts/write_monitoring.py --check
	@$(RUN) check_jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml

.PHONY: check-image
check-image: $(DEV)
	@echo "check: Dockerfile"
	@sh scripts/check_image.sh $(BIN)/hadolint

.PHONY: check-slim
check-slim: $(RUNTIME) ## Install without extras, and without the embedded parts, and use the package there.
	@$(BIN)/python scripts/check_slim.py

.PHONY: sizes
sizes: $(DEV) ## Measure what an installation weighs, for docs/guide/installation.md and size.md.
	@$(BIN)/python scripts/installed_sizes.py

.PHONY: docs
docs: $(DEV) sync ## Build the documentation into site/; a dead link is an error.
	@echo "check: docs"
	@$(RUN) zensical build --strict --clean

.PHONY: format
format: $(DEV) ## Format the code and apply the linter's safe fixes.
	@$(RUN) ruff check --quiet --fix --exit-zero .
	@$(RUN) ruff format .

.PHONY: sync
# An installation has written it, and methods may have changed since.
sync: $(RUNTIME) ## Write agent_reminiscence/sync from the asynchronous classes; make test and make check do so too.
	@$(BIN)/python scripts/write_sync.py

.PHONY: prompts
prompts: $(DEV) ## Write docs/reference/prompts.md anew, after a prompt or the schema of an answer has changed.
	@$(BIN)/python scripts/write_prompts.py

.PHONY: monitoring
monitoring: $(DEV) ## Write monitoring/grafana.json, after a figure or a panel has changed.
	@$(BIN)/python scripts/write_monitoring.py

.PHONY: bench-locomo
bench-locomo: bench-data $(BENCH) ## Measure recall on real conversations. DATA=folder
	@$(BIN)/python benchmarks/locomo.py --data "$(DATA)" $(BENCH_ARGS)

.PHONY: bench-lifebench
bench-lifebench: bench-data $(BENCH) ## Measure recall on a year of phone data. DATA=folder
	@$(RUN) benchmarks.lifebench --data "$(DATA)" $(BENCH_ARGS)

.PHONY: bench-answers
bench-answers: $(BENCH) ## Ask a model about what was recalled, beside BM25. DATA=folder BENCH_ARGS="--model provider:name"
	@$(RUN) benchmarks.answers $(if $(DATA),--data "$(DATA)") $(BENCH_ARGS)

.PHONY: bench-endings
bench-endings: $(BENCH) ## Ask sixty questions after an honest memorizer, one that spoils, and none. Asks no model.
	@$(RUN) benchmarks.endings $(BENCH_ARGS)

.PHONY: bench-prompts
bench-prompts: $(BENCH) ## Count the tokens that each agent is sent. Asks no model.
	@$(RUN) benchmarks.prompts $(BENCH_ARGS)

.PHONY: bench-outdated
bench-outdated: $(BENCH) ## Measure what marks of what is probably out of date do to recall, right ones and wrong ones.
	@$(RUN) benchmarks.outdated $(BENCH_ARGS)

.PHONY: bench-entities
bench-entities: bench-data $(BENCH) ## Sample the extractor's names, to judge by hand, and time it. DATA=folder
	@$(RUN) benchmarks.entities --data "$(DATA)" $(BENCH_ARGS)

.PHONY: bench-data
bench-data:
	@test -n "$(DATA)" || { echo "this target needs data: add DATA=/path/to/folder" >&2; exit 2; }
	@test -e "$(DATA)" || { echo "DATA=$(DATA) does not exist" >&2; exit 2; }

.PHONY: bench-latency
bench-latency: $(BENCH) ## Measure the four methods against their bare SQL statements.
	@$(BIN)/python benchmarks/latency.py $(BENCH_ARGS)

.PHONY: bench-ledger
bench-ledger: $(BENCH) ## Measure replay, verify, rebuild, erasure and the chain's share of a write.
	@$(BIN)/python benchmarks/ledger.py $(BENCH_ARGS)

.PHONY: bench-scale
bench-scale: $(BENCH) ## Measure a million chunks of 2,000 tenants: load, disk, recall, readers. Takes about an hour.
	@$(RUN) benchmarks.scale $(BENCH_ARGS)

.PHONY: bench-turns
bench-turns: $(BENCH) ## Measure a chat of 10,000 turns, written one by one with consolidation on. Takes about 10 minutes.
	@$(RUN) benchmarks.turns $(BENCH_ARGS)

.PHONY: bench-jobs
bench-jobs: $(BENCH) ## Measure how soon work starts, how much it slows calls, and a worker's throughput.
	@$(RUN) benchmarks.jobs $(BENCH_ARGS)

.PHONY: bench-subscribe
bench-subscribe: $(BENCH) ## Measure how soon followers get events, whether any is lost, and what writers pay for it.
	@$(RUN) benchmarks.subscribe $(BENCH_ARGS)

.PHONY: bench-views
bench-views: $(BENCH) ## Measure what agents' views cost over 100,000 events: the first build, and one more turn.
	@$(RUN) benchmarks.views $(BENCH_ARGS)

.PHONY: bench-salience
bench-salience: bench-data $(BENCH) ## Measure what an index adds to the salience of events. DATA=folder
	@$(RUN) benchmarks.salience --data "$(DATA)" $(BENCH_ARGS)

.PHONY: bench-first-run
bench-first-run: $(BENCH) ## Measure the first and a later run in a data folder: CPU of all processes, waiting times.
	@$(RUN) benchmarks.first_run $(BENCH_ARGS)

.PHONY: bench-graph
bench-graph: $(BENCH) ## Measure 100,000 entities in both stores: writes, reads, lag, plans. Needs Java; takes about an hour.
	@$(RUN) benchmarks.graph $(BENCH_ARGS)

.PHONY: bench-ingest
bench-ingest: $(BENCH) ## Measure imports: one by one, in batches, repeated, and their memory. Takes about 15 minutes.
	@$(RUN) benchmarks.ingest $(BENCH_ARGS)

.PHONY: bench-languages
bench-languages: $(BENCH) ## Measure how well facts are found in fourteen languages. Takes a minute or two.
	@$(RUN) benchmarks.languages $(BENCH_ARGS)

.PHONY: bench-filters
bench-filters: $(BENCH) ## Measure recall and lists with filters that admit 1, 10 and 90 %. Takes about half an hour.
	@$(RUN) benchmarks.filters $(BENCH_ARGS)

.PHONY: bench-several
bench-several: $(BENCH) ## Measure a question to 2, 4 and 16 memories beside as many single ones. Takes three minutes.
	@$(RUN) benchmarks.several $(BENCH_ARGS)

.PHONY: bench-halves
bench-halves: $(BENCH) ## Ask one memory, and two halves of it, the same. BENCH_ARGS="--locomo FOLDER --everyday FOLDER"
	@$(RUN) benchmarks.halves $(BENCH_ARGS)

.PHONY: bench-redaction
bench-redaction: $(BENCH) ## Measure how fast secrets are found, including in worst-case texts.
	@$(RUN) benchmarks.redaction $(BENCH_ARGS)

.PHONY: bench-react
bench-react: $(BENCH) ## Measure what memory costs an agent with 5,000 facts and 5,000 episodes. Takes about ten minutes.
	@$(RUN) benchmarks.react $(BENCH_ARGS)

.PHONY: bench-react-tasks
bench-react-tasks: $(BENCH) ## Do six tasks twice with a scripted model: requests, tokens, right answers. Asks no model.
	@$(RUN) benchmarks.react_tasks $(BENCH_ARGS)

.PHONY: bench-serve
bench-serve: $(BENCH) ## Measure the server under load beside calls in process. BENCH_ARGS="--minutes 10" adds a steady load.
	@$(RUN) benchmarks.serve $(BENCH_ARGS)

.PHONY: bench-floods
bench-floods: $(BENCH) ## Measure what one caller that floods the server leaves of it for another tenant.
	@$(RUN) benchmarks.floods $(BENCH_ARGS)

.PHONY: bench-loop
bench-loop: $(BENCH) ## Measure how long the event loop is blocked while the largest inputs are written.
	@$(RUN) benchmarks.loop $(BENCH_ARGS)

MEM0 := build/mem0-venv
ERASURE := build/erasure

.PHONY: bench-erasure
bench-erasure: $(BENCH) $(MEM0)/.installed ## Compare what erase() and mem0's delete_all leave behind.
	@$(MEM0)/bin/python -m benchmarks.erasure run mem0 --json $(ERASURE)/1-mem0.json $(BENCH_ARGS)
	@$(MEM0)/bin/python -m benchmarks.erasure run mem0-infer --json $(ERASURE)/2-mem0-infer.json $(BENCH_ARGS)
	@$(RUN) benchmarks.erasure run reminiscence --json $(ERASURE)/3-reminiscence.json $(BENCH_ARGS)
	@$(RUN) benchmarks.erasure table $(ERASURE)/1-mem0.json $(ERASURE)/2-mem0-infer.json $(ERASURE)/3-reminiscence.json

$(MEM0)/.installed: benchmarks/erasure/requirements.txt
	@sh scripts/make_venv.sh $(MEM0) $(PYTHON)
	@$(MEM0)/bin/python -m pip install --quiet --require-hashes --no-deps -r $<
	@touch $@

.PHONY: requirements
requirements: | $(BIN)/python ## Re-pin the newest allowed versions, with hashes.
	@$(INSTALL) "uv>=0.9.8,<1"
	@$(BIN)/python scripts/pin_requirements.py

.PHONY: clean
clean: ## Remove what the other targets created.
	rm -rf $(VENV) build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@sh scripts/make_venv.sh $(VENV) $(PYTHON)

$(RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "Installing the package and its dependencies into $(VENV) …"
	@$(INSTALL) --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
# pip compiles what it installs, but not what stays where it is.
	@$(RUN) compileall -q agent_reminiscence
	@touch $@

$(TEST) $(BENCH) $(DEV): $(VENV)/.%: requirements/%.txt $(RUNTIME)
	@echo "Installing requirements/$*.txt into $(VENV) …"
	@$(INSTALL) --require-hashes -r $<
# Compiles the tests: otherwise each process of a run does it, all at the same time. What is wrong is for the run to say.
	@if [ $* = test ]; then $(RUN) pytest --collect-only --everyday -qq >/dev/null 2>&1 || true; fi
	@touch $@
