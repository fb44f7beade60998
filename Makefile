# Two commands: `make lab` opens the labs, `make test` runs the tests. Both set up .venv first.
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
# A rented GPU is often used as root, which JupyterLab must be told.
ROOT := $(if $(filter 0,$(shell id -u 2>/dev/null)),--allow-root)

lab: .venv/ready
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 $(ROOT) notebooks/00_start_here.ipynb

test: .venv/ready .venv/tests-ready
	$(BIN)/python -m pytest -q

record: .venv/ready
	$(BIN)/python -m labkit record

doctor: .venv/ready
	$(BIN)/python -m labkit doctor

lint: .venv/ready .venv/tests-ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

.venv/ready: pyproject.toml constraints.txt tools/cupy_extra.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".$$($(PYTHON) tools/cupy_extra.py)"
	@echo ready > $@

.venv/tests-ready: .venv/ready
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[test]"
	@echo ready > $@

.PHONY: lab test record doctor lint
