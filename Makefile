# Keyrack. `make demo` and `make test` install everything that they need, unless it is installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLER := requirements/install.py requirements/installers.txt
PYTEST_ARGS ?=
KEYS_ARGS ?= 10000000 1 300
TRANSPORTS_ARGS ?= 2000000 1 1000000
TOOLS := .venv-tools
CLIENTS := .clients
TYPESCRIPT := .typescript
SITE_TOOLS := .venv-site
# If it were set, each test run would compile all tests again, and each started command the changed modules
unexport PYTHONDONTWRITEBYTECODE
ASSETS := src/keyrack/console/assets
BUILD_ASSETS := $(PYTHON) console-assets/build.py

.PHONY: help demo install install-dev test test-cluster dist test-dist image test-image audit test-abuse test-faults test-odata-long test-openapi-long test-upgrade check unit bench bench-history bench-tables clean docs lock screenshots clients client-packages test-console-long cluster test-failover soak site test-site test-clients test-phone test-drive test-cells test-cell-moves test-moving test-order test-keys-weeks test-keys-long test-transports-long golden test-recordings record-requests migration

## help: show these lines
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
	  printf '  %-16s %s\n' "$$target" "$$text"; done

## demo: run the whole service with a demo fleet; DEMO_ARGS="--port 8080 --state DIR"
demo: install
	@exec $(BIN)/keyrack demo $(DEMO_ARGS)

## install: create the virtual environment with .venv/bin/keyrack, from packages with pinned versions and hashes
install: $(VENV)/.installed $(ASSETS)/built-from.txt

$(VENV)/.installed: requirements/runtime.txt $(INSTALLER) pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Keyrack needs Python 3.11 or newer. Choose one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) requirements/install.py $(VENV) $< --editable
	@touch $@

$(ASSETS)/built-from.txt: $(VENV)/.installed requirements/assets.txt $(wildcard console-assets/*.*)
	@$(BUILD_ASSETS)
	@touch $@

## install-dev: install, with the tools for tests, types and lint
install-dev: $(VENV)/.installed-dev $(ASSETS)/built-from.txt $(TYPESCRIPT)/.installed

$(VENV)/.installed-dev: requirements/dev.txt $(VENV)/.installed
	@$(PYTHON) requirements/install.py $(VENV) $<
	@touch $@

# All tests of a file run in one process of pytest, because they share the file's fixtures
UNIT := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

## test: check lint and types, and run all tests except those of `make test-cluster`
test: check
	$(UNIT) -m "not cluster" $(PYTEST_ARGS)

## test-cluster: run the tests that start servers or clusters, simulate weeks, or take a minute per file
test-cluster: install-dev
	$(UNIT) -m cluster $(or $(PYTEST_ARGS),$(shell grep -rl --include='test_*.py' pytest.mark.cluster tests))

## migration: write the migration of new declared members; NAME=car_color
migration: install-dev
	@$(BIN)/python tools/new_migration.py "$(NAME)"

## check: check lint, types, imports and language
check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/prose.py --limits

## unit: run all tests, without lint and types; PYTEST_ARGS="tests/fleet/endpoints/test_cars.py -x"
unit: install-dev
	$(UNIT) $(PYTEST_ARGS)

## test-odata-long: test 100,000 mutated OData texts, 20,000 random filters, and 5,000 with other literals
test-odata-long: install-dev
	KEYRACK_LONG=1 $(BIN)/pytest -n auto --dist loadscope tests/api/odata/test_parser.py tests/api/odata/test_random_filters.py \
	  tests/api/odata/test_filter_cache.py

## test-openapi-long: send 100 valid and 100 invalid requests to each endpoint, generated from the OpenAPI document
test-openapi-long: install-dev
	KEYRACK_LONG=1 $(BIN)/pytest tests/http/openapi/test_openapi.py $(PYTEST_ARGS)

## test-recordings: replay the recorded requests and compare byte for byte (two minutes)
test-recordings: install-dev
	KEYRACK_RECORDINGS=1 $(BIN)/pytest -s -p no:cacheprovider tests/recordings $(PYTEST_ARGS)

## record-requests: record the requests again; explain each difference in tests/recordings/data in the commit
record-requests: install-dev
	$(BIN)/python -m tests.recordings.record

## test-clients: run the client packages, generated clients and third-party libraries (eight minutes)
test-clients: install-dev $(CLIENTS)/.installed
	KEYRACK_CLIENTS=$(CURDIR)/$(CLIENTS) $(BIN)/pytest -s -p no:cacheprovider tests/clients $(PYTEST_ARGS)

## test-drive: test the drivers' app: its modules in Node, and its pages in Chromium
test-drive: install-dev
	$(BIN)/pytest -s -p no:cacheprovider tests/drivers/test_app_files.py tests/drivers/test_app_modules.py tests/drivers/test_drive_app.py tests/drivers/test_drive_box_moments.py tests/drivers/test_drive_account_pages.py tests/drivers/test_drive_accessibility.py $(PYTEST_ARGS)

## test-phone: check the types of reference/phone, and verify keys and lists with a third-party COSE library
test-phone: install-dev $(CLIENTS)/.installed
	KEYRACK_CLIENTS=$(CURDIR)/$(CLIENTS) $(BIN)/pytest -s -p no:cacheprovider tests/clients/test_phone.py $(PYTEST_ARGS)

$(CLIENTS)/.installed: requirements/clients.txt tests/clients/package-lock.json $(VENV)/.installed-dev
	@$(PYTHON) requirements/install.py $(CLIENTS)/venv $<
	@$(BIN)/python tests/clients/tools.py $(CLIENTS)
	@touch $@

## test-console-long: test every console page in both themes, both languages, narrow and wide, and in all time zones
test-console-long: install-dev
	KEYRACK_LONG=1 $(BIN)/pytest -n auto --dist loadfile tests/console $(PYTEST_ARGS)

## test-faults: 10,000 operations while processes are killed and the database restarts; 1,000 random histories
test-faults: install-dev
	KEYRACK_FAULTS=10000 KEYRACK_HISTORIES=1000 $(BIN)/pytest -s -p no:cacheprovider \
	  tests/assignments/test_faults.py tests/assignments/test_histories.py $(PYTEST_ARGS)

## test-keys-long: fuzz the boxes in Python and C with 10 million messages, then the box in C alone (half an hour)
test-keys-long: install-dev
	$(BIN)/python -m tests.offline_keys.fuzz_boxes $(KEYS_ARGS)

## test-transports-long: 2 million random calls to the transports in Python and in C, then the ones in C alone (ten minutes)
test-transports-long: install-dev
	$(BIN)/python -m tests.offline_keys.fuzz_transports $(TRANSPORTS_ARGS)

## test-order: check the order of change numbers under 30 s of concurrent writes, and that a wrong order is detected
test-order: install-dev
	KEYRACK_ORDER=30 $(BIN)/pytest -s -p no:cacheprovider tests/changelog/test_sequence_order.py $(PYTEST_ARGS)

## test-abuse: attack a server, and compare the measurements with the goals (nine minutes); PYTEST_ARGS="-k memory"
test-abuse: install-dev
	KEYRACK_ABUSE=1 $(BIN)/pytest -s -p no:cacheprovider tests/abuse $(PYTEST_ARGS)

## test-keys-weeks: simulate eight weeks of offline keys, with thieves, for five seeds (ten minutes)
test-keys-weeks: install-dev
	KEYRACK_LONG=1 $(BIN)/pytest -s -p no:cacheprovider tests/simulator/offline/test_scenario.py -k eight_weeks $(PYTEST_ARGS)

## cluster: run three PostgreSQL with Patroni and etcd, two API nodes and two workers on this machine, until Ctrl-C
cluster: install-dev
	@exec $(BIN)/python -m drills cluster

## test-failover: check that no data is lost when machines fail under load (twenty minutes); DRILL_ARGS="--cells --rounds 1 --only killed"
test-failover: install-dev
	$(BIN)/python -m drills failover $(DRILL_ARGS)

## soak: run a mixed load for half an hour, and check what grows; DRILL_ARGS="--minutes 5"
soak: install-dev
	$(BIN)/python -m drills soak $(DRILL_ARGS)

## dist: build wheel, sdist, SBOM, licences, client packages and checksums in dist/, reproducibly
dist: install $(TYPESCRIPT)/.installed
	@$(BIN)/python packages/dist.py

# The compiler of the TypeScript client, and Node
$(TYPESCRIPT)/.installed: requirements/node.txt clients/typescript/package-lock.json
	@$(PYTHON) requirements/install.py $(TYPESCRIPT)/venv $<
	@$(TYPESCRIPT)/venv/bin/python clients/typescript/build.py tools $(TYPESCRIPT)
	@touch $@

## test-dist: install the packages of `make dist` into an empty environment, and run the demo from it
test-dist: install-dev dist
	KEYRACK_DIST=$(CURDIR)/dist $(BIN)/pytest -s -p no:cacheprovider tests/packaging/test_dist.py $(PYTEST_ARGS)

## image: build localhost/keyrack with buildah or podman; KEYRACK_BASE=mmdebstrap if no registry is reachable
image: dist
	PYTHON=$(BIN)/python deploy/container/build

## test-image: run the image of `make image`; PODMAN="podman --runtime runc", PODMAN_RUN="--ulimit ..." if needed
test-image: install-dev
	KEYRACK_PODMAN="$(or $(PODMAN),podman)" KEYRACK_PODMAN_RUN="$(PODMAN_RUN)" \
	  $(BIN)/pytest -s -p no:cacheprovider tests/packaging/test_container.py $(PYTEST_ARGS)

## audit: check pinned dependencies for known vulnerabilities, with pip-audit and npm audit
audit: install $(TOOLS)/.installed
	@$(BIN)/python packages/audit.py $(TOOLS)/bin/pip-audit

$(TOOLS)/.installed: requirements/tools.txt
	@$(PYTHON) requirements/install.py $(TOOLS) $<
	@touch $@

## site: build the documentation's site in .site/html; to view it: python3 -m http.server -d .site/html
site: $(SITE_TOOLS)/.installed
	@$(PYTHON) docs-site/stage.py .site/pages
	@rm -rf .site/html
	@NO_COLOR=1 $(SITE_TOOLS)/bin/zensical build --clean --strict --config-file mkdocs.yml

$(SITE_TOOLS)/.installed: requirements/site.txt
	@$(PYTHON) requirements/install.py $(SITE_TOOLS) $<
	@touch $@

## test-site: build the site, check all links and anchors, and open each page in a browser without network access
test-site: install-dev site
	KEYRACK_SITE=$(CURDIR)/.site/html $(BIN)/pytest -s -p no:cacheprovider tests/docs/test_site.py $(PYTEST_ARGS)

## test-upgrade: upgrade from 0.1.0 with downtime, and from the previous release without, under load
test-upgrade: install-dev
	KEYRACK_UPGRADES=1 $(BIN)/pytest -s -p no:cacheprovider tests/upgrades tests/db/embedded/test_major_upgrade.py $(PYTEST_ARGS)

## test-moving: import a customer from another server and from 0.1.0, with forty killed imports
test-moving: install-dev
	KEYRACK_MOVING=1 $(BIN)/pytest -s -p no:cacheprovider tests/ops/transfer $(PYTEST_ARGS)

## test-cells: serve two cells at one address: the HTTP contract with customers in both, every credential, a cell that is away
test-cells: install-dev
	KEYRACK_TEST_CELLS=1 $(BIN)/pytest -p no:cacheprovider tests/server/test_cells_router.py tests/server/test_cells_credentials.py tests/http/test_contract.py tests/http/test_tenant_isolation.py $(PYTEST_ARGS)

## test-cell-moves: move a customer between cells a hundred times, with movers that are killed at random statements
test-cell-moves: install-dev
	KEYRACK_CELL_MOVES=100 $(BIN)/pytest -s -p no:cacheprovider tests/ops/cells $(PYTEST_ARGS)

## bench: print the tables of benchmarks/results.md, and write them to benchmarks/runs; BENCH="outcomes live" for some, BENCH="--tiny" for a short run of all
bench: install-dev
	$(BIN)/python -m benchmarks $(BENCH)

## bench-history: a page with a chart for each goal over the commits, from benchmarks/runs and earlier versions of results.md
bench-history: install-dev
	$(BIN)/python -m benchmarks.history

## bench-tables: run all benchmarks, and write the tables to benchmarks/results.md (100 minutes); BENCH="outcomes" for one
bench-tables: install-dev
	$(BIN)/python -m benchmarks --write $(BENCH)

## docs: generate docs/endpoints.md, errors.md, metrics.md, settings.md, and the generated tables of other pages
docs: install
	$(BIN)/keyrack endpoints --markdown > docs/endpoints.md
	$(BIN)/keyrack errors --markdown > docs/errors.md
	$(BIN)/keyrack metrics --markdown > docs/metrics.md
	$(BIN)/keyrack settings --markdown > docs/settings.md
	$(BIN)/python docs/package_table.py
	$(BIN)/python docs/implicit_context.py
	$(BIN)/python docs/dialect_table.py

## clients: generate the types, operations and error classes of the client packages
clients: install
	$(BIN)/python clients/generate.py

## client-packages: build the client packages that the server of this checkout offers at /packages/
client-packages: install $(TYPESCRIPT)/.installed
	@$(BIN)/python packages/dist.py --clients src/keyrack/client_packages

## golden: write the golden files again; explain each difference in the commit
golden: install-dev
	KEYRACK_GOLDEN=write $(BIN)/pytest -q -p no:cacheprovider tests/golden/test_golden.py
	git --no-pager diff --stat -- tests/golden/data

## screenshots: take the screenshots of docs/console.md and the README, from a new demo
screenshots: install-dev
	$(BIN)/python docs/screenshots.py

## lock: pin the dependencies again, from pyproject.toml, requirements/*.in and console-assets/package.json (needs uv on the PATH)
lock:
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --extra embedded --extra traces pyproject.toml requirements/build.in -o requirements/runtime.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --extra embedded --extra traces --extra dev pyproject.toml requirements/build.in \
	  -c requirements/runtime.txt -o requirements/dev.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --no-deps requirements/assets.in -o requirements/assets.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/cluster.in -o requirements/cluster.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --extra embedded --extra traces pyproject.toml -c requirements/runtime.txt \
	  -o requirements/deployed.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/tools.in -o requirements/tools.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/clients.in -o requirements/clients.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/node.in -o requirements/node.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/site.in -o requirements/site.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate requirements/installers.in -o requirements/installers.txt
	$(PYTHON) console-assets/build.py lock
	$(BIN)/python tests/clients/tools.py $(CLIENTS) lock
	$(TYPESCRIPT)/venv/bin/python clients/typescript/build.py lock $(TYPESCRIPT)
	@$(MAKE) install $(TOOLS)/.installed $(TYPESCRIPT)/.installed
	$(BIN)/python packages/materials.py $(TOOLS)/bin/cyclonedx-py

## clean: remove the virtual environments, the console's third-party files and the caches of tools
clean:
	rm -rf $(VENV) $(TOOLS) $(SITE_TOOLS) $(CLIENTS) $(TYPESCRIPT) .provider .site dist $(ASSETS) $(dir $(ASSETS)).assets-* .pytest_cache .ruff_cache
