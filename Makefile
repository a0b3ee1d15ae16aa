# Every target runs scripts/setup first, which does nothing if everything is installed. Variables:
# PYTHON=/path/to/python3.12   the interpreter
# APT=no                       do not install Debian packages
# ARGS="..."                   arguments of the target's program (pytest, benchmark, fuzzer, script)
# ACCELSCOPE_CAPTURES=FOLDER   captures for the tests

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# Folders with Python code, and scripts outside of them.
CODE := src tests bench tools
SCRIPTS := $(addprefix scripts/,audit coverage dashboards demo docs manifests mutate pictures protobuf sbom structure) \
	deploy/image/install.py deploy/image/compile_library.py deploy/image/collect-wheels setup.py

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1|/' | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## create .venv from the locked versions
	@scripts/setup

.PHONY: page
page: ## build the fleet's web page from web/ if it is out of date
	@scripts/page

.PHONY: demo
demo: ## run a simulated fleet with its web page
	@scripts/setup --need compiler --want prometheus
	@scripts/page
	@$(BIN)/python scripts/demo

.PHONY: incident
incident: ## play the demo's incident through Prometheus and Alertmanager with the rules of 0.1.0 and with these
	@scripts/setup --need compiler --need prometheus --need alertmanager
	@scripts/page
	@$(BIN)/python -m tools.incident $(ARGS)

.PHONY: test
test: ## run all tests except slow and end-to-end ones; with ARGS only pytest, on what they select
	@scripts/setup --need compiler --need openssl --want promtool --want systemd-analyze --want tmux --want fish --want zsh
ifeq ($(strip $(ARGS)),)
	@scripts/page
	scripts/npm test
endif
	$(BIN)/python -m pytest --numprocesses=logical --dist=worksteal --ignore=tests/e2e --ignore=tests/reality -m "not slow" $(ARGS)

.PHONY: e2e
e2e: e2e-setup ## run the slow tests, and those with a real Prometheus, Kubernetes and the vendors' programs (as root)
	@scripts/e2e $(ARGS)

.PHONY: e2e-prepare
e2e-prepare: e2e-setup ## only get what make e2e needs: Kubernetes, Helm, images, the vendors' programs
	$(BIN)/python -m tests.e2e.kubernetes prepare
	$(BIN)/python -m tests.reality

.PHONY: e2e-setup
e2e-setup:
	@scripts/setup --need compiler --need openssl --need prometheus --need promtool --need alertmanager \
		--need victoria-metrics --need chromium --need tmux --need cluster
	@scripts/page

.PHONY: coverage
coverage: ## measure the branch coverage of src/ by make test and make e2e together
	@scripts/setup
	$(BIN)/python scripts/coverage $(ARGS)

.PHONY: bench
bench: ## compare the agent's resource use with other exporters
	@scripts/setup --need compiler --need openssl --need node-exporter
	$(BIN)/python -m bench $(ARGS)

.PHONY: fuzz
fuzz: ## fuzz the parsers (FUZZ_SECONDS=60 in total; ARGS="SOURCE SECONDS": one parser)
	@scripts/fuzz $(ARGS)

.PHONY: prove
prove: ## run the long tests (1½ to 2 hours): soak, long fuzzing, mutation testing, benchmark with peers
	@scripts/setup --need compiler --need openssl --need node-exporter
	@failed=; try() { printf '\n=== %s\n' "$$*"; "$$@" || failed="$$failed; $$*"; }; \
	try $(BIN)/python -m tools.soak; \
	try $(BIN)/python -m tools.soak.hostile_agent; \
	try env FUZZ_SECONDS=600 scripts/fuzz; \
	try $(BIN)/python scripts/mutate; \
	try $(BIN)/python -m bench --peers --only exporters; \
	if [ -n "$$failed" ]; then echo "prove: FAILED: $${failed#; }"; exit 1; fi; echo 'prove: all passed'

.PHONY: lint
lint: ## check format, style, types and imports
	@scripts/setup
	$(BIN)/ruff format --check $(CODE) $(SCRIPTS)
	$(BIN)/ruff check $(CODE) $(SCRIPTS)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports
	scripts/npm run check
	scripts/npm run lint
	@if command -v helm >/dev/null; then helm lint --strict --quiet --set image.registry=registry.test deploy/chart; \
	else echo 'lint: no helm on PATH; tests/deploy lints the chart after make e2e has built helm'; fi

.PHONY: format
format: ## format the code and apply the linters' safe fixes
	@scripts/setup
	$(BIN)/ruff check --fix-only $(CODE) $(SCRIPTS)
	$(BIN)/ruff format $(CODE) $(SCRIPTS)
	scripts/npm run format

.PHONY: docs
docs: ## regenerate the reference pages from code
	@scripts/setup
	$(BIN)/python scripts/docs $(ARGS)

.PHONY: dashboards
dashboards: ## regenerate the Grafana dashboards and Prometheus rules from code
	@scripts/setup
	$(BIN)/python scripts/dashboards $(ARGS)

.PHONY: manifests
manifests: ## regenerate deploy/manifests from the chart (builds helm if it is not on PATH)
	@scripts/setup
	@HELM="$$(command -v helm || $(BIN)/python -c 'from tests.e2e.kubernetes import binaries; print(binaries.program("helm"))')" \
		$(BIN)/python scripts/manifests $(ARGS)

.PHONY: pictures
pictures: ## retake the README's pictures of the running demo
	@scripts/setup --need compiler --need chromium --need tmux
	@scripts/page
	$(BIN)/python scripts/pictures

.PHONY: lock
lock: ## update requirements/*.txt from pyproject.toml (UPGRADE=1: newest versions)
	@scripts/lock $(if $(UPGRADE),--upgrade)

.PHONY: wheel
wheel: ## build the web page, dist/accelscope-*.tar.gz and dist/accelscope-*.whl
	@scripts/setup
	@scripts/page
	rm -rf build dist
	$(BIN)/uv build --quiet --offline --no-build-isolation --no-config --python $(BIN)/python --out-dir dist
	rm -rf build
	@ls dist/*.tar.gz dist/*.whl

.PHONY: sbom
sbom: ## write the SBOMs of the images and the page (CycloneDX) to dist/sbom
	@scripts/setup
	$(BIN)/python scripts/sbom $(ARGS)

.PHONY: audit
audit: ## check the locked packages for known vulnerabilities ("not run" if no source is reachable)
	@scripts/setup
	$(BIN)/python scripts/audit $(ARGS)

.PHONY: clean
clean: ## remove everything that make created
	rm -rf $(VENV) web/node_modules src/accelscope/fleet/page/static
	rm -rf build dist src/*.egg-info .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
