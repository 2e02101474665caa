# `make demo` and `make test` do all of their own set-up in .venv and are safe to run
# again. PYTHON=/path/to/python3.12 chooses another interpreter (Python >= 3.11).

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all lint format clean

# Whatever the caller's shell has active stays out of .venv.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PIP_TARGET PIP_PREFIX PIP_USER

VENV := .venv
RUN := $(VENV)/bin/python -m
PYTEST := $(RUN) pytest --numprocesses auto --maxprocesses 4
SUITABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

# A marker with the writer's process number stands while pip writes. Where a killed one
# left it, .venv is built anew.
$(shell marker=$(VENV)/.installing; \
  if [ -e $$marker ] && ! kill -0 "$$(cat $$marker)" 2>/dev/null; \
  then rm -rf $(VENV); fi)
# An editable install names its checkout. One copied with its .venv installs again.
ifneq ($(shell cat $(VENV)/.checkout 2>/dev/null),$(CURDIR))
$(shell rm -f $(VENV)/.demo $(VENV)/.test)
endif

help:
	@echo 'make demo      train, evaluate, predict and draw on real digits, two minutes'
	@echo 'make test      linter, formatter check, import contracts and tests'
	@echo 'make test-all  the same, then the slow tests'
	@echo 'make format    format the code and mend what the linter can mend'
	@echo 'make clean     remove .venv, caches and built packages'

demo: $(VENV)/.demo
	$(RUN) vit_jax demo

test: lint
	$(PYTEST)

test-all: test
	$(PYTEST) -m slow

lint: $(VENV)/.test
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(VENV)/bin/python $(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.test
	$(RUN) ruff check --fix
	$(RUN) ruff format

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache
	rm -rf build dist vit_jax.egg-info

$(VENV)/.created:
	@if ! $(VENV)/bin/python -c '$(SUITABLE)' 2>/dev/null \
	    || ! $(RUN) pip --version >/dev/null 2>&1; then \
	  found=; \
	  for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    if $$python -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'vit_jax needs Python >= 3.11 with its venv module, and found none.' >&2; \
	    echo 'Install it (Debian, Ubuntu: apt install python3-venv), or name it:' >&2; \
	    echo 'make demo PYTHON=/path/to/python3.12' >&2; \
	    exit 1; \
	  fi; \
	  echo "Building $(VENV) with $$($$found --version)"; \
	  $$found -m venv --clear $(VENV) || exit 1; \
	fi
	@touch $@

# pip cleans up after itself where it fails or is told to stop, unless it is killed.
define install
	@trap 'exit 130' INT TERM; echo $$$$ >$(VENV)/.installing; \
	$(RUN) pip install --disable-pip-version-check $(1); status=$$?; \
	if [ $$status -le 2 ]; then rm -f $(VENV)/.installing; fi; exit $$status
	@printf %s '$(CURDIR)' >$(VENV)/.checkout
endef

# The demo ends with pictures.
$(VENV)/.demo: $(VENV)/.created setup.py pyproject.toml
	$(call install,--editable '.[plots]')
	@touch $@

$(VENV)/.test: $(VENV)/.created setup.py pyproject.toml
	$(call install,--editable '.[test]')
	@touch $(VENV)/.demo $@
