# `make run` and `make test` need make and python3 >= 3.11 with its venv module; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where `make run` keeps the database, images and keys.
STATE ?= state
# Extra arguments for the command that a target runs: make run ARGS="--help"
ARGS ?=
# Test processes at once: twice as many as cores, as the long tests wait for guests and other processes.
JOBS ?= 4
# These also run on a second reactor: for each thing that a reactor is used for, the tests that use it themselves:
# threads and timers (of databases, the engine, blocking drivers), sockets (to processes of our own, libpq, an AMQP bus,
# BMCs, OVN's database, NBD, a file sent, an import received), processes (of drivers). Other drivers use no more than
# these. All other tests have a Clock, or start clouds in processes, which have their own reactor whatever the test's is;
# tests/live has a test that a whole cloud works on asyncio's.
ASYNCIO_TESTS ?= $(addprefix tests/db/test_,database.py group.py libpq.py line.py) \
	$(addprefix tests/tasks/test_task_,live.py peers.py) tests/rest/test_sendfile.py tests/image/test_image_web.py \
	$(addprefix tests/drivers/,amqp redfish nbd ovn/test_ovn_failures.py test_driver_threaded.py test_driver_programs.py)

LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed

# Tests that start `twist` or `openstack` find those of the venv. Not exported: $(PYTHON) must not be found in there.
# Hundreds of processes import the same modules, so bytecode is kept, even if the environment says otherwise.
PYTEST_ALONE := PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# Each process begins with its share of the long tests (tests/conftest.py), and takes from another's when it is done.
PYTEST := $(PYTEST_ALONE) -n $(JOBS) --dist=worksteal
# Where pytest keeps its bytecode.
COMPILED := tests/__pycache__

CLIENTS := novaclient cinderclient glanceclient openstackclient openstack-objects osc-placement placement libcloud \
	gophercloud masakari rally ansible heat horizon nodepool swiftclient boto3 awscli s3fs rclone s3cmd restic \
	duplicity sync

# How many simulations of docs/instance-ha.md run, and how large and long each of them is.
SIMULATED ?= --seeds=100 --hosts=100 --servers=2000 --days=30

# Which walks of docs/testing.md are made, how long each of them is, and what disturbs them.
WALKED ?= --seeds=0-199 --steps=300 --mix=crashes,faults,hosts,soft

.PHONY: help run test lint format bench simulate walk clients docs lock sbom clean
.DELETE_ON_ERROR:

help:
	@echo "make run     start a cloud in the foreground; its state is kept in ./$(STATE)"
	@echo "make test    lint, types, every test, and the reactor's tests again on asyncio's reactor"
	@echo "make lint    ruff and mypy only"
	@echo "make format  let ruff rewrite what it can"
	@echo "make bench   measure this machine"
	@echo "make simulate play months of deaths of hosts, links, processes and fencers (docs/instance-ha.md)"
	@echo "make walk    ask by chance whatever can be asked, in trouble, and see that all agrees (docs/testing.md)"
	@echo "make clients stock clients' own suites against a cloud of this checkout (tests/clients/README.md)"
	@echo "make docs    write docs/api.md and etc/policy.toml from the code"
	@echo "make lock    choose new versions for requirements.lock"
	@echo "make sbom    write sbom.cdx.json, the packages of requirements.lock, as CycloneDX"
	@echo "make clean   remove all that was made here, except ./$(STATE)"

run: $(INSTALLED)
	@mkdir -p -m 0700 $(STATE)
	exec $(BIN)/twist cloudctl --state-dir=$(STATE) $(ARGS)

# mypy is one process for a minute, which leaves the other cores idle: the tests run beside it, and those on asyncio's
# reactor after it, while the others go on.
test: $(INSTALLED)
	$(MAKE) --no-print-directory --jobs=2 lint tests tests-on-asyncio

.PHONY: tests tests-on-asyncio
tests: $(COMPILED)
	$(PYTEST)

# The others go on for much longer, so two processes will do: each collects what there is.
tests-on-asyncio: lint $(COMPILED)
	$(PYTEST_ALONE) -n 2 --dist=worksteal --reactor=asyncio $(ASYNCIO_TESTS)

# If nothing is compiled yet, one process does it: otherwise all of them would compile the same at once. The later runs
# report whatever this one would.
$(COMPILED): | $(INSTALLED)
	-@$(PYTEST_ALONE) --collect-only >/dev/null

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED)
	@set -e; for measure in benchmarks/core.py benchmarks/tasks.py benchmarks/cloud.py benchmarks/identity.py benchmarks/objects.py benchmarks/host.py benchmarks/many_hosts.py benchmarks/cluster.py benchmarks/processes.py benchmarks/ceph.py; do echo "== $$measure"; $(BIN)/python $$measure $(ARGS); done

simulate: $(INSTALLED)
	$(BIN)/python -m tests.instance_ha.simulation $(if $(filter file,$(origin JOBS)),,--jobs=$(JOBS)) $(SIMULATED) $(ARGS)

walk: $(INSTALLED)
	$(BIN)/python -m tests.walks $(if $(filter file,$(origin JOBS)),,--jobs=$(JOBS)) $(WALKED) $(ARGS)

# Each of them runs even if an earlier one failed.
clients: $(INSTALLED)
	@failed=; for client in $(CLIENTS); do echo "== $$client"; tests/clients/$$client || failed="$$failed $$client"; done; \
		[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

docs: $(INSTALLED)
	$(BIN)/cloudctl docs api > docs/api.md.new && mv docs/api.md.new docs/api.md
	$(BIN)/cloudctl docs policy > etc/policy.toml.new && mv etc/policy.toml.new etc/policy.toml

# The newest versions that setup.cfg allows, with the hashes of all their files: nothing else is installed.
lock:
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --extra postgresql --extra test --output-file requirements.lock setup.cfg
	rm -rf $(VENV)-lock

# What an installation contains, for vulnerability scanners: CycloneDX.
sbom:
	$(PYTHON) -m venv --clear $(VENV)-sbom
	$(VENV)-sbom/bin/pip install --quiet cyclonedx-bom
	$(VENV)-sbom/bin/cyclonedx-py requirements --output-format JSON --output-file sbom.cdx.json requirements.lock
	rm -rf $(VENV)-sbom

clean:
	rm -rf $(VENV) $(VENV)-lock $(VENV)-sbom sbom.cdx.json build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis _trial_temp*
	rm -f twisted/plugins/dropin.cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(0 if sys.version_info >= (3, 11) else 1)' \
		|| { echo "cloudctl needs Python 3.11 or newer with its venv module; say which one: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@

# Without build isolation, only what the lock names is fetched.
$(INSTALLED): $(LOCKED) setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
