# make lab      set up, copy the lessons to work/, open JupyterLab at the first one
# make test     set up, add the test tools, then run every test that this machine can run
# make site     build the course as web pages into build/site, with tools of its own and no .venv
# make address  REPOSITORY=https://github.com/OWNER/NAME: write where this is published into pyproject.toml and the README
# make wheel    build the course as one installable file into build/wheel
#
# make test-gpu               on a GPU: what is marked for it and the notebooks; goes on where it stopped
# make record                 on a GPU: measures anew what is recorded and outdated; goes on where it stopped
# make gpu-debts              both of these
# make release-check          what must hold before a release; fails where a record is outdated
# make test-triton-versions   the older Tritons: all of tests/ on 3.8, lowering and export on 3.6 and 3.7
#
# TORCH=cpu     take PyTorch's CPU build (a machine with no NVIDIA GPU; gigabytes smaller)
# PYTHON=…      the Python to set up with; 3.11, 3.12 or 3.13
# LAB="…"       a lesson to open, as LAB=04; options for `jupyter lab`, as LAB="--no-browser --port 9000"
# TEST="…"      options for pytest, as TEST="-k mode"
# PART="…"      what to test, as PART=tests/gpu or PART="notebooks/0[0-3]*": notebooks and tests by default
# JOBS=…        processes of test-gpu that compile side by side; as many as there are cores by default
# REQUIRE=…     browser,compiler,gpu,hub,site: what must be there; without it, tests that need it are skipped

PYTHON ?= python3
TORCH ?=
LAB ?=
TEST ?=
# The notebooks first: each is a long test, and would otherwise run alone at the end.
PART ?= notebooks tests
JOBS ?= $(shell nproc)
VENV := .venv/bin/python
# test-gpu and record work with the machine's own Python and torch too, where no .venv was made.
ANY = $(if $(wildcard $(VENV)),$(VENV),$(PYTHON))
LOWERING := tests/triton_internals/test_private_names.py $(wildcard tests/lowering/test_*.py) tests/isolate/test_function_source.py $(wildcard tests/aot/test_*.py)
# In the order of PART and its folders, and a file in one process: its tests share what its fixtures make.
PYTEST = -m pytest -n auto --dist loadfile --no-loadscope-reorder $(PART)

export TORCH REQUIRE

.PHONY: setup setup-dev setup-test lab test test-gpu test-triton-versions record gpu-debts release-check lint notebooks site address wheel lock clean

setup:
	@$(PYTHON) course/bootstrap.py

setup-dev:
	@$(PYTHON) course/bootstrap.py --dev

# With what the tests of the site and of a room need; where it cannot be had, they are skipped with the reason.
setup-test: setup-dev
	@$(PYTHON) course/bootstrap.py --site || true
	@$(VENV) -m course workshop setup || true

lab: setup
	@$(VENV) -m course lab $(LAB)

test: setup-test
	COURSE_MODE=cpu $(VENV) $(PYTEST) $(TEST)

# Compiling takes the time, so many processes share the GPU; what must have it to itself follows in one process. A
# folder for the queue lets cells that measure take turns. Two folders import packages that the machine's own Python
# may lack, and need no GPU.
ON_GPU = COURSE_MODE=gpu REQUIRE=gpu,$(REQUIRE) COURSE_GPU_QUEUE=$(CURDIR)/build/gpu-queue $(ANY) \
  -m pytest --going-on --ignore tests/site --ignore tests/hub
test-gpu: $(if $(wildcard $(VENV)),setup-dev)
	@mkdir -p build/gpu-queue
	$(ON_GPU) -n $(JOBS) --dist loadgroup -m "(gpu or gpu_too) and not alone" $(PART) $(TEST) \
	  || failed=1; \
	$(ON_GPU) -m alone $(PART) $(TEST) || failed=1; exit $${failed:-0}

# Each older Triton is in a folder of its own; torch and the rest are those of .venv. The folder's path is absolute,
# since tests change the current one.
test-triton-versions: test-triton-3.6.0 test-triton-3.7.1 test-triton-3.8.0
test-triton-3.6.0 test-triton-3.7.1: TESTS := $(LOWERING)
test-triton-3.8.0: TESTS := tests
test-triton-%: setup-dev
	[ -d build/triton-$* ] || $(VENV) -m pip install -q --no-deps --target build/triton-$* triton==$*
	PYTHONPATH=$(CURDIR)/build/triton-$* COURSE_MODE=cpu $(VENV) -m pytest -q -n auto --dist loadfile $(TESTS) $(TEST)

record:
	COURSE_MODE=gpu $(ANY) -m tools.record

gpu-debts:
	$(MAKE) test-gpu || failed=1; $(MAKE) record || failed=1; exit $${failed:-0}

release-check: setup-dev
	$(VENV) -m tools.record --check
	$(MAKE) lint test

lint: setup-dev
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	$(VENV) -m mypy
	$(VENV) -m tools.other_languages
	$(VENV) -m course notebooks --check
	$(VENV) -m course teaching --check

notebooks: setup
	$(VENV) -m course notebooks

site:
	@$(PYTHON) course/bootstrap.py --site
	@build/site-tools/bin/python -m docs.site

address:
	@$(PYTHON) -m docs.site.address $(REPOSITORY)

wheel: setup
	$(VENV) -m pip wheel -q --no-deps --no-build-isolation --wheel-dir build/wheel .

# It asks PyPI and PyTorch's own index. Versions stay as they are where pyproject.toml lets them; torch is asked for anew,
# so that the hashes of both builds are there.
lock: setup-dev
	$(VENV) -m uv lock --upgrade-package torch

clean:
	rm -rf .venv build *.egg-info
