# `make demo` and `make test` need Python 3.11 or newer, make and a C++ compiler; everything else they fetch
# into .venv, once. `make help` lists the verbs.

PYTHON ?= python3
# Tests wait a third of their time, so that two cores keep up with three of them.
WORKERS ?= 3
DEVICE ?= cpu
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEVELOPMENT := $(VENV)/.development
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
LOCKED := --constraint requirements.lock --build-constraint requirements.lock
EXTRAS := evaluate,export,generate,github,inspect,level4,litellm,modal,plots,ray,serve
FORMATTED := leaderboard KernelBench/kernel_evaluator scripts tests

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: demo test check format check-problems redteam gvisor site picture bless containerfile lock clean help

demo: $(RUNTIME)  ## Validate, evaluate on the CPU, and render a board: the whole way in a few minutes
	$(BIN)/kbl demo

test: $(DEVELOPMENT)  ## Run every test that this machine can run
	@# With bytecode: else each of some hundred processes compiles all of our modules that it loads.
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(DEVELOPMENT)  ## Lint, types, layers, workflows, image and schemas: what the check of a pull request runs
	$(BIN)/ruff check
	$(BIN)/ruff format --check $(FORMATTED)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --check-metaschema leaderboard/schemas/*.json
	$(if $(wildcard submissions/*.json),$(BIN)/check-jsonschema --schemafile leaderboard/schemas/submission.schema.json submissions/*.json)
	$(BIN)/kbl validate submissions
	$(BIN)/hadolint Containerfile
	@if [ -d .github/workflows ]; then \
	  $(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml && \
	  $(BIN)/zizmor --offline --persona=pedantic .github && \
	  $(BIN)/python -m pytest tests/board/github/test_stand_ins.py -k parser; fi

format: $(DEVELOPMENT)  ## Bring the code into its format
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format $(FORMATTED)

site: $(RUNTIME)  ## Build the site from the recorded results into build/site
	$(BIN)/kbl site build

picture: $(DEVELOPMENT)  ## Build the site and take its pictures: the README's board, and all of docs/pages
	$(BIN)/kbl site build
	$(BIN)/kbl site picture --out docs/board.png
	$(BIN)/python benchmarks/pictures.py

check-problems: $(RUNTIME)  ## Prove the problem set: weights, inputs and outputs of every problem
	$(BIN)/kbl problems check --jobs $(WORKERS)

redteam: $(DEVELOPMENT)  ## Judge every known cheat and every odd but honest kernel; DEVICE=cuda on a GPU
	$(BIN)/python benchmarks/redteam.py --device $(DEVICE)

gvisor: $(DEVELOPMENT)  ## Raise the walls and judge 25 cases of the red team under gVisor (root or sudo, x86-64)
	$(BIN)/python benchmarks/gvisor.py

bless: $(DEVELOPMENT)  ## Renew what tests expect of generated texts; look at the difference before you commit it
	BLESS=1 $(BIN)/python -m pytest tests/test_docs.py tests/board/render/test_site_golden.py

containerfile: $(RUNTIME)  ## Write Containerfile from the list of what an epoch pins
	$(BIN)/python -m kernel_evaluator.engines.image > Containerfile

# The lock leaves out what torch's own build brings: CUDA's libraries are pinned by torch itself.
lock: $(DEVELOPMENT)  ## Write requirements.lock: a version for all that any extra or group needs; known ones stay
	$(PIP) install $(LOCKED) --editable ".[$(EXTRAS)]" --group test --group lint
	@{ echo "# Written by make lock; constraints for every extra and group of pyproject.toml."; \
	  $(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed 's/+.*//' | grep -viE '^(cuda|nvidia)\b' | \
	  LC_ALL=C sort -f; } > requirements.lock.new
	mv requirements.lock.new requirements.lock
	scripts/lock_workflows.sh $(BIN)/python

clean:  ## Remove what the other verbs made, and .venv
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info

help:  ## List the verbs
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | awk -F '\t' '{ printf "make %-16s %s\n", $$1, $$2 }'

# Torch comes first and by its plain name, so that whatever build the machine's package index offers is taken.
$(RUNTIME): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: apt-get install python3, or make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
	  { echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	@command -v g++ > /dev/null || { echo "A C++ compiler is missing: apt-get install g++"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "pip==26.3"
	$(PIP) install "$$(grep -i '^torch==' requirements.lock)"
	$(PIP) install $(LOCKED) --editable ".[evaluate]"
	@touch $@

$(DEVELOPMENT): $(RUNTIME)
	$(PIP) install $(LOCKED) --editable ".[evaluate,github,modal,plots,ray,serve]" --group test --group lint
	@touch $@
