# Every target sets up what it needs (scripts/setup says what it does and is done in no time the second time).
# PYTHON=/path/to/python3.12 chooses the interpreter, APT=no keeps setup from installing Debian packages,
# ARGS="..." is handed to what the target runs (pytest, benchmark, fuzzer, script), ACCELSCOPE_CAPTURES=folder tells
# tests where captures are.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# Folders that hold Python, and Python outside of them.
CODE := src tests bench demo fuzz monitoring soak
SCRIPTS := $(addprefix scripts/,audit coverage dashboards demo docs manifests mutate pictures protobuf sbom structure) \
	deploy/image/install.py deploy/image/compile_library.py deploy/image/collect-wheels setup.py

.PHONY: help
help: ## show the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1|/' | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## make .venv from the locked versions
	@scripts/setup

.PHONY: page
page: ## build the fleet's web page from web/, where it is not built already
	@scripts/page

.PHONY: demo
demo: ## run a simulated fleet with its web page, and say where to look
	@scripts/setup --need compiler --want prometheus
	@scripts/page
	@$(BIN)/python scripts/demo

.PHONY: test
test: ## run all tests but the end-to-end ones
	@scripts/setup --need compiler --need openssl --want promtool --want systemd-analyze --want tmux --want fish --want zsh
	@scripts/page
	scripts/npm test
	$(BIN)/python -m pytest --numprocesses=logical --dist=worksteal tests --ignore=tests/e2e $(ARGS)

.PHONY: e2e
e2e: e2e-setup ## run the end-to-end tests: a real Prometheus scrapes the agent, a real Kubernetes runs it (as root)
	@scripts/e2e $(ARGS)

.PHONY: e2e-prepare
e2e-prepare: e2e-setup ## only build what make e2e needs: Kubernetes, Helm and others with Go, container images
	$(BIN)/python -m tests.e2e.kubernetes prepare

.PHONY: e2e-setup
e2e-setup:
	@scripts/setup --need compiler --need openssl --need prometheus --need promtool --need victoria-metrics --need chromium \
		--need tmux --need cluster
	@scripts/page

.PHONY: coverage
coverage: ## measure the branch coverage of src/ by make test and make e2e together
	@scripts/setup
	$(BIN)/python scripts/coverage $(ARGS)

.PHONY: bench
bench: ## measure the agent beside other exporters
	@scripts/setup --need compiler --need openssl --need node-exporter
	$(BIN)/python -m bench $(ARGS)

.PHONY: fuzz
fuzz: ## look for inputs that break a parser (FUZZ_SECONDS=60 in all; ARGS="SOURCE SECONDS": one parser)
	@scripts/fuzz $(ARGS)

.PHONY: prove
prove: ## 1½ to 2 hours: a day of churn, long fuzzing, mutation of parsers and attribution, the benchmark beside its peers
	@scripts/setup --need compiler --need openssl --need node-exporter
	@failed=; try() { printf '\n=== %s\n' "$$*"; "$$@" || failed="$$failed; $$*"; }; \
	try $(BIN)/python -m soak; \
	try $(BIN)/python -m soak.hostile_agent; \
	try env FUZZ_SECONDS=600 scripts/fuzz; \
	try $(BIN)/python scripts/mutate; \
	try $(BIN)/python -m bench --peers --only exporters; \
	if [ -n "$$failed" ]; then echo "prove: FAILED: $${failed#; }"; exit 1; fi; echo 'prove: all passed'

.PHONY: lint
lint: ## check format, style, types and layers
	@scripts/setup
	$(BIN)/ruff format --check $(CODE) $(SCRIPTS)
	$(BIN)/ruff check $(CODE) $(SCRIPTS)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports
	scripts/npm run check
	scripts/npm run lint
	@if command -v helm >/dev/null; then helm lint --strict --quiet --set image.registry=registry.test deploy/chart; \
	else echo 'lint: no helm on PATH; tests/deploy lints the chart once make e2e has built one'; fi

.PHONY: format
format: ## format the code and apply the linters' safe fixes
	@scripts/setup
	$(BIN)/ruff check --fix-only $(CODE) $(SCRIPTS)
	$(BIN)/ruff format $(CODE) $(SCRIPTS)
	scripts/npm run format

.PHONY: docs
docs: ## remake the reference pages that are made from code
	@scripts/setup
	$(BIN)/python scripts/docs $(ARGS)

.PHONY: dashboards
dashboards: ## remake the Grafana dashboards and the rules that are made from code
	@scripts/setup
	$(BIN)/python scripts/dashboards $(ARGS)

.PHONY: manifests
manifests: ## render deploy/manifests from the chart (builds helm from its Go module where none is on PATH)
	@scripts/setup
	@HELM="$$(command -v helm || $(BIN)/python -c 'from tests.e2e.kubernetes import binaries; print(binaries.program("helm"))')" \
		$(BIN)/python scripts/manifests $(ARGS)

.PHONY: pictures
pictures: ## make the README's pictures anew, from the running demo
	@scripts/setup --need compiler --need chromium --need tmux
	@scripts/page
	$(BIN)/python scripts/pictures

.PHONY: lock
lock: ## remake requirements/*.txt from pyproject.toml (UPGRADE=1: with the newest versions)
	@scripts/lock $(if $(UPGRADE),--upgrade)

.PHONY: wheel
wheel: ## build dist/accelscope-*.tar.gz, with the web page built, and from it dist/accelscope-*.whl
	@scripts/setup
	@scripts/page
	rm -rf build dist
	$(BIN)/uv build --quiet --offline --no-build-isolation --no-config --python $(BIN)/python --out-dir dist
	rm -rf build
	@ls dist/*.tar.gz dist/*.whl

.PHONY: sbom
sbom: ## write what images and page are made of, as CycloneDX, into dist/sbom
	@scripts/setup
	$(BIN)/python scripts/sbom $(ARGS)

.PHONY: audit
audit: ## ask whether a locked package has a known vulnerability ("not run" where nobody can be asked)
	@scripts/setup
	$(BIN)/python scripts/audit $(ARGS)

.PHONY: clean
clean: ## remove everything that make made
	rm -rf $(VENV) web/node_modules src/accelscope/fleet/page/static
	rm -rf build dist src/*.egg-info .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
