# make lab      set up, copy the lessons to work/, open JupyterLab at the first one
# make test     set up, then run everything that this machine can test
#
# TORCH=cpu     take PyTorch's CPU build (a machine with no NVIDIA GPU; gigabytes smaller)
# PYTHON=…      the Python to set up with; 3.11, 3.12 or 3.13
# LAB="…"       options for `jupyter lab`, as LAB="--no-browser --port 9000"
# TEST="…"      options for pytest, as TEST="-k mode"
# REQUIRE=…     browser,gpu: what must be there; without it, tests that need it are skipped with the reason

PYTHON ?= python3
TORCH ?=
LAB ?=
TEST ?=
VENV := .venv/bin/python
# test-gpu and record work with the machine's own Python and torch too, where no .venv was made.
ANY = $(if $(wildcard $(VENV)),$(VENV),$(PYTHON))
PYTEST := -m pytest -n auto --dist loadfile tests notebooks

export TORCH REQUIRE

.PHONY: setup lab test test-gpu record lint notebooks lock clean

setup:
	@$(PYTHON) course/bootstrap.py

lab: setup
	@$(VENV) -m course lab $(LAB)

test: setup
	COURSE_MODE=cpu $(VENV) $(PYTEST) $(TEST)

# One GPU serves one process at a time here: no -n.
test-gpu:
	COURSE_MODE=gpu REQUIRE=gpu,$(REQUIRE) $(ANY) -m pytest tests notebooks $(TEST)

record:
	COURSE_MODE=gpu $(ANY) -m course record

lint: setup
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	$(VENV) -m mypy
	$(VENV) -m course notebooks --check

notebooks: setup
	$(VENV) -m course notebooks

lock:
	uv pip compile pyproject.toml -o requirements.lock

clean:
	rm -rf .venv *.egg-info
