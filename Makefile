# One-word commands; `make` lists them. Those that need the setup run it first; a finished setup costs nothing.
SHELL := /bin/bash
PYTHON := .venv/bin/python
# Each start of a program would compile all of it. The sources stay free of compiled files.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache
unexport PYTHONDONTWRITEBYTECODE

ROCKETMQ_VERSION ?= 5.5.0
KEEP ?=
TESTS ?= tests
VERSION ?=
PARTS ?=
OUT ?= out
DIR ?= tests/testdata/raft
GOLDEN ?=
DIFF ?=
LIVE_JAVA ?= 5.2.0 5.4.0 5.5.0
RUNS ?= 3
PLAIN_RUNS ?= 0
FAULTS ?=
PLACEMENTS ?=
CLIENT ?=
THREADS ?=
CLIENTS ?=
FULL_GC ?=
HEAP ?=
CPU ?=
TIMEOUT_MS ?=
COMPANIONS ?=
SEEDS ?= 2000
DAYS ?= 1
PODS ?= 100
GROUPS ?= 200
FIRST ?= 0
SECONDS ?= 20
MEGABYTES ?= 512
ROUNDS ?= 30
SEED ?=
DURABILITY ?= all-in-sync
ORDER ?= 1
WORKERS ?= 2
MINUTES ?=
PACKAGES := controller_core ha_sidecar rocketmq_operator slo_pipeline testkit project_tools

.PHONY: help setup demo test lint types images images-push images-join changelog e2e e2e-full bench bench-clients bench-collector bench-controller bench-failover bench-ha bench-killed bench-modes bench-operator bench-spark sim sim-raft mutants sim-ha kill-rounds lease-load fuzz raft-scenarios conformance chart docs docs-reference release clean
.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

.venv/.ready: uv.lock scripts/setup $(wildcard */pyproject.toml) pyproject.toml
	@scripts/setup
	@touch $@

setup: ## install the dependencies of the other commands, or name the missing ones
	@scripts/setup
	@touch .venv/.ready

demo: .venv/.ready ## run the whole chain on loopback: kill, switch over, read back, report (ROCKETMQ_VERSION=, KEEP=1)
	@$(PYTHON) -m testkit.demo --rocketmq $(ROCKETMQ_VERSION) --out $(OUT) $(if $(KEEP),--keep)

test: .venv/.ready ## run every test that needs no Kubernetes (TESTS=folder: a part; ORDER=n: another order; WORKERS=1: one at a time; MINUTES=n: begin none of real processes later)
	@$(PYTHON) -m pytest $(TESTS) -p no:cacheprovider --randomly-seed=$(ORDER) --reruns 1 -rRs --durations 10 $(if $(MINUTES),--minutes $(MINUTES)) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

lint: .venv/.ready types ## check style, import contracts, types and tidiness
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports --no-cache
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/tidy

types: .venv/.ready ## mypy --strict and pyright
	@.venv/bin/mypy $(foreach package,$(PACKAGES),-p $(package))
	@.venv/bin/pyright --warnings

images: ## build the images of operator, controller, sidecar and spark (docker, podman or buildah)
	@scripts/images build

images-push: ## push the images to a registry (REGISTRY=registry.example.com/, TAG=0.1.0)
	@scripts/images push

images-join: ## give the pushed images of amd64 and arm64 (tags TAG-amd64, TAG-arm64) one name (REGISTRY=, TAG=)
	@scripts/images join amd64 arm64

e2e: .venv/.ready ## test on a real Kubernetes: the cluster of KUBECONFIG, or one that the tool in KUBE_STACK starts
	@scripts/e2e

e2e-full: .venv/.ready ## e2e and the longer tests: changes, growth, lost volumes, deletion
	@E2E_RUN=full scripts/e2e

bench-failover: .venv/.ready ## measure the cost of losing a master on a real Kubernetes (RUNS=3, PLAIN_RUNS=0, FAULTS="kill delete freeze cut again roll", PLACEMENTS="controllers operator log-replica name-server dns", THREADS=4 of the producer, CLIENT="inside outside grpc": which run, PROXY_MODE=nftables, TLS=1: clients and group in TLS only, AGENTS=1: with node agents, TRANSACTIONS=0: none beside, WARM_UP=seconds of load before each fault); each run in OUT=out
	@E2E_RUN=bench scripts/e2e --runs $(RUNS) --plain-runs $(PLAIN_RUNS) $(if $(FAULTS),--faults $(FAULTS)) $(if $(PLACEMENTS),--placements $(PLACEMENTS)) $(if $(CLIENT),--clients $(CLIENT)) $(if $(THREADS),--threads $(THREADS)) $(if $(TLS),--tls) $(if $(AGENTS),--agents) $(if $(filter 0,$(TRANSACTIONS)),--no-transactions) $(if $(WARM_UP),--warm-up $(WARM_UP)) --out $(OUT)/bench_failover.jsonl

bench-controller: ROUNDS = 3
bench-controller: .venv/.ready ## measure our controllers and Java's in ROUNDS=3 turns: requests, elections, restart, growth (ONLY="ours ours-in-tls", WHAT=requests)
	@$(PYTHON) tests/bench/bench_controller.py --rounds $(ROUNDS) $(foreach one,$(ONLY),--only $(one)) $(foreach one,$(WHAT),--what $(one))

bench: bench-controller ## the same as bench-controller

bench-clients: RUNS = 1
bench-clients: .venv/.ready ## measure what a change of master costs clients of CLIENTS="4.9.7 5.1.1 5.2.0 5.5.0 grpc go" (ROCKETMQ_VERSION= of the brokers, RUNS=1, FAULTS="kill stop pause freeze switchover", COMPANIONS=1)
	@$(PYTHON) tests/bench/bench_clients.py --brokers $(ROCKETMQ_VERSION) --runs $(RUNS) $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(COMPANIONS),--companions)

bench-collector: .venv/.ready ## measure collectors of PODS=100 pods, of a page of 100,000 series, and of 1,000 pods: CPU, memory
	@$(PYTHON) tests/bench/bench_collector.py --pods $(PODS)

bench-ha: .venv/.ready ## measure the HA port: Java to Java, Java to ours, ours to Java, ours to ours, raw sendfile, seed (MEGABYTES=512)
	@$(PYTHON) tests/bench/bench_ha.py --megabytes $(MEGABYTES)

bench-killed: RUNS = 5
bench-killed: .venv/.ready ## measure how long a killed broker of HEAPS="1Gi 4Gi" keeps its connections, with its heap in huge and in small pages (RUNS=5)
	@$(PYTHON) tests/bench/bench_killed.py --runs $(RUNS) $(if $(HEAPS),--heaps $(HEAPS))

bench-modes: ROUNDS = 3
bench-modes: .venv/.ready ## measure what Async, Quorum, AllInSync, SYNC_FLUSH and TLS cost a Java client, in ROUNDS=3 turns (ONLY="2 brokers")
	@$(PYTHON) tests/bench/bench_modes.py --rounds $(ROUNDS) $(if $(ONLY),--only "$(ONLY)")

bench-operator: .venv/.ready ## measure the operator with GROUPS="200" broker groups on a real API server without nodes (as root)
	@$(PYTHON) tests/bench/bench_operator.py $(foreach groups,$(GROUPS),--groups $(groups))

bench-spark: .venv/.ready ## measure the jobs, DuckDB and Prometheus on DAYS="1" (or "1 10 30"; ONLY=reports or samples); a stopped bench goes on where it was
	@$(PYTHON) tests/bench/bench_spark.py --results $(OUT)/bench-spark.jsonl $(if $(ONLY),--only $(ONLY)) $(foreach days,$(DAYS),--days $(days))

sim: .venv/.ready ## run SEEDS=2000 random schedules against whole controllers with modelled brokers and clients
	@$(PYTHON) -m testkit.sim --seeds $(SEEDS) --first $(FIRST)

sim-raft: .venv/.ready ## run SEEDS=2000 random schedules against the Raft core alone
	@$(PYTHON) -m testkit.sim --what raft --seeds $(SEEDS) --first $(FIRST)

mutants: .venv/.ready ## plant bugs in a copy of the controller, and check that each is found
	@$(PYTHON) -m testkit.mutants

kill-rounds: .venv/.ready ## kill -9 members under load, ROUNDS=30 times (SEED=n, DURABILITY=quorum), and read back
	@$(PYTHON) -m testkit.kill_rounds --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) --durability $(DURABILITY)

lease-load: SECONDS = 3600
lease-load: .venv/.ready ## let real brokers write for SECONDS=3600 under their write leases, and count failovers and leases that ran out (FULL_GC=5: seconds between forced full collections of HEAP=4g; CPU=0.2: share of the master; TIMEOUT_MS=5000)
	@LEASE_LOAD_S=$(SECONDS) LEASE_LOAD_FULL_GC_S=$(FULL_GC) LEASE_LOAD_HEAP=$(or $(HEAP),$(if $(FULL_GC),4g)) LEASE_LOAD_CPU=$(CPU) LEASE_LOAD_TIMEOUT_MS=$(TIMEOUT_MS) $(PYTHON) -m pytest -q -s --log-cli-level=INFO tests/process/companion/test_write_lease.py -k neither_load

fuzz: .venv/.ready ## fuzz every reader of untrusted bytes (SECONDS=20 for each reader, KEEP=1)
	@$(PYTHON) -m testkit.fuzz --seconds $(SECONDS) $(if $(KEEP),--keep)

sim-ha: SEEDS = 1000
sim-ha: .venv/.ready ## run SEEDS=1000 random schedules against the replicated log: crashes, torn writes, lost connections
	@$(PYTHON) -m testkit.ha_sim --seeds $(SEEDS) --first $(FIRST)

raft-scenarios: .venv/.ready ## replay every scenario text under DIR against the Raft core
	@$(PYTHON) -m testkit.raft_scenarios $(DIR)

conformance: .venv/.ready ## compare our answers with a recording of Java's controller (GOLDEN=file: another recording; DIFF=1: run Java too)
	@$(if $(GOLDEN),,echo "conformance: GOLDEN is not set: comparing with the project's own recording only" >&2)
	@$(PYTHON) -m testkit.conformance $(if $(GOLDEN),--golden $(GOLDEN)) $(if $(DIFF),$(LIVE_JAVA:%=--live %))

chart: .venv/.ready ## generate CRDs, the chart's Prometheus rules, the pages about its values and about the kinds
	@.venv/bin/rocketmq-operator crds --directory crds
	@$(PYTHON) -m project_tools.chart_files
	@$(PYTHON) -m project_tools.kind_page

docs: .venv/.ready ## build the site of the documents in out/site, with checked links
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict --site-dir $(OUT)/site

docs-reference: .venv/.ready ## check every command and link in the documents
	@$(PYTHON) -m pytest -q -p no:cacheprovider tests/tidy/test_docs.py

release: .venv/.ready ## build the files of a release in out/release (VERSION=0.2.0, PARTS="wheels,chart": some of them)
	@$(PYTHON) -m project_tools.release $(VERSION) --out $(OUT)/release $(if $(PARTS),--parts $(PARTS))

changelog: .venv/.ready ## print what the fragments in changelog.d will become, or write it (VERSION=0.2.0)
	@.venv/bin/towncrier build --yes --version $(or $(VERSION),unreleased) $(if $(VERSION),,--draft)

clean: ## remove everything that these commands made
	@rm -rf .venv .tools .cache $(OUT) .mypy_cache .ruff_cache .hypothesis .pytest_cache spark-warehouse
