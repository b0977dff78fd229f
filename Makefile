# One virtual environment, made the first time it is needed and brought up to date when the
# dependencies change. `demo` needs the package alone; the other targets add the `dev` extra.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt
# Three processes on two cores: tests also wait, for servers and for processes of their own.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadgroup -q
# JAX compiles every shape and dtype: `make test` has a training step of each layer, and `make jax`
# the rest.
SHARED_CHECKS := tests/recsys_attn/test_layers.py tests/recsys_attn/test_compositions.py
# Not those that take hours: CONTRIBUTING.md has their commands.
# `python -P`: with their folder in the path, benchmarks/serving.py would be the package `serving`.
HOURS := training quality long_histories pruning gates
BENCHMARKS := $(filter-out $(HOURS:%=benchmarks/%.py),$(wildcard benchmarks/[a-z]*.py))

.DEFAULT_GOAL := help
.PHONY: help demo docs test thorough portable ray jax oracles quality protos lint check bench clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/\1|\2/' \
	  | awk -F'|' '{ printf "  make %-8s %s\n", $$1, $$2 }'

demo: $(VENV)/.package ## Simulate data, train, report, export, serve a user and items: runs/demo
	@$(BIN)/recsys-attn demo

test: $(VENV)/.dev ## Run the tests; RECSYS_DATA=FOLDER adds those on real data
	KERAS_BACKEND=tensorflow $(PYTEST)
	KERAS_BACKEND=jax $(PYTEST) tests/recsys_attn/test_layers.py -k training_step
	@! $(BIN)/python -c 'import torch' 2>/dev/null \
	  || KERAS_BACKEND=torch $(PYTEST) $(SHARED_CHECKS) tests/recsys_attn/test_embeddings.py

thorough: $(VENV)/.dev ## Run the tests that take long, beside those of `make test` (half an hour)
	KERAS_BACKEND=tensorflow $(PYTEST) -m thorough

docs: $(VENV)/.docs ## Build the documentation: build/docs/index.html
	$(BIN)/python -m docs.imports_picture
	$(BIN)/python -m docs.experiment_keys
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/docs/index.html; with search: $(BIN)/python -m http.server -d build/docs"

portable: $(VENV)/.dev ## Run the tests as processors without AVX-512 or AVX2 would, and on one core (an hour)
	@failed=; \
	for isa in AVX2 AVX; do \
	  echo "== $$isa"; \
	  TF_ENABLE_ONEDNN_OPTS=0 ONEDNN_MAX_CPU_ISA=$$isa XLA_FLAGS=--xla_cpu_max_isa=$$isa \
	    $(MAKE) test || failed="$$failed $$isa"; \
	done; \
	echo "== one core"; \
	taskset -c 0 $(MAKE) test || failed="$$failed one-core"; \
	test -z "$$failed" || { echo "Failed:$$failed"; exit 1; }

ray: $(VENV)/.ray ## Run the tests on a cluster (minutes; adds Ray, 330 MB)
	KERAS_BACKEND=tensorflow $(PYTEST) tests/pipelines/engines

jax: $(VENV)/.dev ## Run all tests of recsys_attn on JAX (a quarter of an hour: it compiles every shape)
	KERAS_BACKEND=jax $(PYTEST) tests/recsys_attn
	KERAS_BACKEND=jax $(PYTEST) -m thorough tests/recsys_attn/test_layers.py

oracles: $(VENV)/.oracles ## Compare attention with other implementations (adds several GB)
	KERAS_BACKEND=tensorflow $(BIN)/python -m pytest -q -rP tests/oracles

quality: $(VENV)/.quality ## Compare the default model with others and with trees (hours; RECSYS_DATA=FOLDER)
	$(BIN)/python -m benchmarks.quality

protos: ## Make the code of serving/protos anew, with the oldest tools that may meet it
	$(PYTHON) -m venv build/protos
	build/protos/bin/python -m pip install --quiet grpcio-tools==1.75.0 protobuf==6.31.1 setuptools
	build/protos/bin/python -m tests.support.protos

lint: $(VENV)/.dev ## Check the style and the formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: lint ## Lint and check the types
	$(BIN)/mypy

bench: $(VENV)/.dev ## Run every benchmark; the tables go to the screen
	@$(if $(BENCHMARKS),,echo "There are no benchmarks yet (benchmarks/*.py).")
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; PYTHONPATH=. $(BIN)/python -P "$$file"; done

clean: ## Remove the environment and every cache; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.package: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed. Name one: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Installing recsys-attn into $(VENV) (once; a few minutes, most of them TensorFlow)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.package
	@echo "Adding the development tools to $(VENV) (once)"
	@$(PIP_INSTALL) -e ".[dev]"
	@touch $@

$(VENV)/.ray: $(VENV)/.dev
	@echo "Adding Ray to $(VENV) (once)"
	@$(PIP_INSTALL) -e ".[dev,ray]"
	@touch $@

$(VENV)/.docs: $(VENV)/.package
	@echo "Adding the documentation tools to $(VENV) (once)"
	@$(PIP_INSTALL) -e ".[docs]"
	@touch $@

$(VENV)/.quality: $(VENV)/.dev
	@echo "Adding LightGBM to $(VENV) (once)"
	@$(PIP_INSTALL) -e ".[dev,quality]"
	@touch $@

$(VENV)/.oracles: $(VENV)/.dev
	@echo "Adding the other implementations to $(VENV) (once)"
	@$(PIP_INSTALL) -e ".[dev,oracles]"
	@touch $@
