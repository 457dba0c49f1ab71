# Two commands on a machine that has only Python 3.11, pip, make and gcc:
#   make test    sets up .venv the first time, then checks and tests everything
#   make demo    compiles and runs a model from end to end

PYTHON ?= python3.11
VENV   ?= .venv
BIN     = $(VENV)/bin
PEERS  ?= .venv-peers
DEMO   ?= .venv-demo
PYTEST_FLAGS ?= -q -n 2 --dist worksteal
LIT_FLAGS    ?= -q

# Python keeps the bytecode of what it imports: a process of a test would take half a second longer without it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv test quick test-ci test-fresh test-tools tutorial-plots pytest check-models filecheck lint types demo bench bench-peers bench-kinds bench-architectures bench-microkernels bench-precisions calibrate bench-quantized bench-compile conformance fuzz mutants bisect-score clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ sub(/:.*/, "", $$1); printf "  %-14s %s\n", $$1, $$2 }'

venv: $(VENV)/.installed ## install mlc and its development tools into .venv

# Installed again only when the list of packages changes. uv if there is one, else pip.
define install
	@if command -v uv >/dev/null; then \
	  uv venv -q --allow-existing --python $(PYTHON) $(1) && uv pip install -q --compile-bytecode -p $(1)/bin/python -e . --group $(2); \
	else \
	  $(PYTHON) -m venv $(1) && $(1)/bin/pip install -q --disable-pip-version-check -U 'pip>=25.1' && \
	  $(1)/bin/pip install -q --disable-pip-version-check -e . --group $(2); \
	fi
	@touch $@
endef

$(VENV)/.installed: pyproject.toml
	$(call install,$(VENV),dev)

# What drives a browser and the like in tests; the browser itself comes from the system (apt install chromium-driver).
$(VENV)/.tools: $(VENV)/.installed
	$(call install,$(VENV),tools)

# PyTorch, TVM, IREE, OpenVINO: 3 GB, and nothing that the tests need.
$(PEERS)/.installed: pyproject.toml
	$(call install,$(PEERS),peers)

# What the demo needs, and no more: mlc, a picture reader, and the wheel that a model is in (its own packages, OpenCV
# among them, stay out).
$(DEMO)/.installed: pyproject.toml
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/pip install -q --disable-pip-version-check -e . 'pillow>=11'
	@$(DEMO)/bin/pip install -q --disable-pip-version-check --no-deps rapidocr-onnxruntime==1.4.4
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

quick: venv ## the loop of an edit, under a minute: lint, filecheck, the tests of tests/tiers.toml's `quick`
	$(BIN)/ruff check -q .
	$(BIN)/lit $(LIT_FLAGS) tests/filecheck
	$(BIN)/pytest $(PYTEST_FLAGS) -m quick

test-ci: venv ## the long tests, which `make test` leaves out (tests/tiers.toml)
	$(BIN)/pytest $(PYTEST_FLAGS) -m ci

test-tools: venv $(VENV)/.tools ## the tests that need another tool, such as a browser; each skips with the name of what is missing
	$(BIN)/pytest -q -rs -m tools

test-fresh: venv ## the property tests with random examples, other ones in each run (the other runs repeat theirs)
	$(BIN)/pytest $(PYTEST_FLAGS) --hypothesis-profile=fresh $$(grep -rlE --include='*.py' '^ *@given' tests)

tutorial-plots: venv ## measure the steps of the tutorials and draw their times
	PYTHONPATH=$(CURDIR) $(BIN)/python docs/tutorial_plots.py

check-models: venv ## models that nobody tuned, at odd sizes, beside onnxruntime (minutes)
	$(BIN)/pytest $(PYTEST_FLAGS) -m slow

demo: $(DEMO)/.installed ## read a line of text in a picture with a compiled model
	$(DEMO)/bin/python examples/demo.py

bench: venv ## measure beside onnxruntime and numpy
	$(BIN)/python benchmarks/run.py

bench-peers: $(PEERS)/.installed ## measure beside onnxruntime, OpenVINO, PyTorch, IREE and TVM (ARGS="--quick --model magika")
	$(PEERS)/bin/python benchmarks/peers.py $(ARGS)

bench-kinds: $(PEERS)/.installed ## measure kinds of work drawn by a seed beside onnxruntime and OpenVINO (ARGS="--seed 1 --threads 1,2 --only conv")
	$(PEERS)/bin/python benchmarks/kinds.py $(ARGS)

bench-architectures: $(PEERS)/.installed ## the same for architectures drawn from timm and torchvision (ARGS="--seed 1 --count 30")
	$(PEERS)/bin/python benchmarks/architectures.py $(ARGS)

bench-microkernels: venv ## products and 1x1 convolutions as shares of what a micro-kernel reaches on this machine
	$(BIN)/python benchmarks/microkernels.py --products $(ARGS)

bench-precisions: venv ## layers in f32 and in bf16, by vectors and by the matrix unit where the CPU has one
	$(BIN)/python benchmarks/precisions.py $(ARGS)

calibrate: venv ## measure this machine in the cost model's terms (ARGS="--output mine.toml")
	$(BIN)/python benchmarks/calibrate.py $(ARGS)

bench-quantized: venv ## measure models in bytes beside floats, and beside onnxruntime
	$(BIN)/python benchmarks/quantized.py $(ARGS)

bench-compile: $(PEERS)/.installed ## seconds until the first output, cold and warm, beside the same peers
	$(PEERS)/bin/python benchmarks/compile_time.py $(ARGS)

conformance: venv ## the ONNX backend tests, compiled; writes docs/conformance.md
	-nice -n 15 $(BIN)/python -m mlc.tools.conformance --output docs/conformance.md

fuzz: venv ## random graphs beside the graph interpreter (SECONDS=600 SEED=0 ARGS="--style large")
	nice -n 15 $(BIN)/python tests/fuzz.py --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0) $(ARGS)

mutants: venv ## the mutation score of --validate-each (SEED=0 COUNT=200 JOBS=2 ARGS="--correct", --list, --small)
	nice -n 15 $(BIN)/python tests/mutants/run.py --seed $(or $(SEED),0) --count $(or $(COUNT),200) --jobs $(or $(JOBS),2) $(ARGS)

bisect-score: venv ## how often mlc bisect names the mutated pass and op, and how small reductions get (SEED=0 COUNT=40)
	nice -n 15 $(BIN)/python tests/mutants/bisect_score.py --seed $(or $(SEED),0) --count $(or $(COUNT),40) $(ARGS)

clean: ## remove what make made
	rm -rf $(VENV) $(PEERS) $(DEMO) build dist *.egg-info
