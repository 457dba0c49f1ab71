# Two commands on a machine that has only Python 3.11, pip, make and gcc:
#   make test    sets up .venv the first time, then checks and tests everything
#   make demo    compiles and runs a model from end to end

PYTHON ?= python3.11
VENV   ?= .venv
BIN     = $(VENV)/bin
PYTEST_FLAGS ?= -q -n 2
LIT_FLAGS    ?= -q

.DEFAULT_GOAL := help
.PHONY: help venv test pytest filecheck lint types demo bench clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ sub(/:.*/, "", $$1); printf "  %-10s %s\n", $$1, $$2 }'

venv: $(VENV)/.installed ## install mlc and its development tools into .venv

# Installed again only when the list of packages changes. uv if there is one, else pip.
$(VENV)/.installed: pyproject.toml
	@if command -v uv >/dev/null; then \
	  uv venv -q --allow-existing --python $(PYTHON) $(VENV) && uv pip install -q -p $(BIN)/python -e . --group dev; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/pip install -q --disable-pip-version-check -U 'pip>=25.1' && \
	  $(BIN)/pip install -q --disable-pip-version-check -e . --group dev; \
	fi
	@touch $@

# One after the other, even under make -j: the last line printed is pytest's summary.
test: venv ## every check: lint, types, filecheck, pytest
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory filecheck
	@$(MAKE) --no-print-directory pytest

lint: venv ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv ## basedpyright
	$(BIN)/basedpyright

filecheck: venv ## FileCheck tests (LIT_FLAGS=-v for the commands)
	$(BIN)/lit $(LIT_FLAGS) tests/filecheck

pytest: venv ## unit and model tests
	$(BIN)/pytest $(PYTEST_FLAGS)

demo: venv ## read a line of text in a picture with a compiled model
	$(BIN)/python examples/demo.py

bench: venv ## measure beside onnxruntime and numpy
	$(BIN)/python benchmarks/run.py

clean: ## remove what make made
	rm -rf $(VENV) build dist *.egg-info
