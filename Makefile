# One command does one thing. `make help` lists them; each target says in its own line what it is for.
# Every target sets up .venv from requirements.lock first (once), so no step needs another before it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c \
	'import sys; sys.version_info >= (3, 11) and print(sys.executable)' 2>/dev/null)))
# The stamp carries the lock's checksum: a new lock installs, an unchanged one never does, an interrupted install resumes.
READY := $(VENV)/.ready-$(shell cksum < requirements.lock | cut -d ' ' -f 1)
SYSTOLA := $(VENV)/bin/systola

# BLOCK, PRESET, OUT, SEED, SEEDS, SCHEDULER: passed on where a command takes them. WAVES=1, COVERAGE=1: environment.
option = $(if $($(1)),--$(2) '$($(1))')
export WAVES COVERAGE

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "missing: Python 3.11 or newer (set PYTHON=/path/to/python3)" >&2; exit 2; }
	@command -v $${CXX:-c++} >/dev/null || { echo "missing: a C++ compiler (c++; set CXX=...)" >&2; exit 2; }
	@command -v perl >/dev/null || { echo "missing: perl (Verilator's driver is a perl script)" >&2; exit 2; }
	@test -x $(VENV)/bin/pip || "$(PYTHON)" -m venv $(VENV) || \
		{ echo "missing: Python's venv module (Debian: apt install python3-venv)" >&2; exit 2; }
	@echo "installing $$(grep -c '==' requirements.lock) pinned packages into $(VENV) (once; about two minutes)"
	@$(VENV)/bin/pip install --disable-pip-version-check --require-hashes -r requirements.lock 2>&1 \
		| awk '/^(Collecting|Requirement already)/ {n += 1; printf "\r  %d packages", n; fflush()} \
		/^(ERROR|error)/ {print; fflush()} /^Installing/ {print "\n  unpacking"; fflush()}'; exit $${PIPESTATUS[0]}
	@$(VENV)/bin/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.ready-*; touch $@

.PHONY: help setup doctor sim test verilog tables bench claims fullsize lint formal coverage mutation regress docs status lock clean
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv (every other command does it when needed)

doctor: $(READY) ## show each tool: version, where it was found, usable or why not
	@$(SYSTOLA) doctor

sim: $(READY) ## simulate every block against golden and print one table [BLOCK= SEED= WAVES=1]
	@$(SYSTOLA) sim $(call option,BLOCK,block) $(call option,SEED,seed)

test: $(READY) ## the quick test suite [SEED=]
	@$(SYSTOLA) test $(call option,SEED,seed)

verilog: $(READY) ## write Verilog and its description [BLOCK= PRESET= OUT=]
	@$(SYSTOLA) verilog $(call option,BLOCK,block) $(call option,PRESET,preset) $(call option,OUT,out)

tables: $(READY) ## fit the functions of the scalar engine anew [FUNCTIONS=]
	@$(VENV)/bin/python -m verif.scalar.generate_tables $(FUNCTIONS)

bench: $(READY) ## measure every figure beside its target [BLOCK=]
	@$(SYSTOLA) bench $(call option,BLOCK,block)

bench-%: $(READY)
	@$(SYSTOLA) bench --block '$*'

fullsize: $(READY) ## compile the 128x128 tensor engine and run a product of each mode against golden
	@$(SYSTOLA) bench --block fullsize

claims: $(READY) ## recompute the published figures of the machine from its description
	@$(SYSTOLA) claims

lint: $(READY) ## style, types, and generated Verilog through every front end
	@$(SYSTOLA) lint

formal: $(READY) ## prove the properties [BLOCK=]
	@$(SYSTOLA) formal $(call option,BLOCK,block)

coverage: $(READY) ## functional and code coverage of the benches [BLOCK=]
	@$(SYSTOLA) coverage $(call option,BLOCK,block)

mutation: $(READY) ## plant netlist mutants and count those the benches notice [BLOCK=]
	@$(SYSTOLA) mutation $(call option,BLOCK,block)

regress: $(READY) ## the long regression [SEEDS=n SCHEDULER=tcp://dask:8786]
	@$(SYSTOLA) regress $(call option,SEEDS,seeds) $(call option,SCHEDULER,scheduler)

docs: $(READY) ## build the site into build/docs
	@$(SYSTOLA) docs

status: $(READY) ## print every figure measured so far as one table
	@$(SYSTOLA) status

lock: ## renew requirements.lock from pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url pyproject.toml -o requirements.lock

clean: ## remove build results; the installed .venv stays
	rm -rf build
