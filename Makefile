# make alone prints what there is. Everything works in a fresh clone with Go alone; what needs a PostgreSQL server starts
# or finds one by itself (see driver_test/pgserver).

SHELL   := /bin/bash
MODULES := $(shell find . -name go.mod -not -path './tools/*' -not -path './.*/*' -exec dirname {} \; | sort)

SECONDS := 180
SEED    := 0
CYCLES  := 1000000

.PHONY: help demo test check generate bench leaks matrix audit torture mutants model release release-check

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch three processes share a lease on a real server, one of them killed, one of them stopped (20 s)
	@cd driver_test && go run ./demo

test: ## Run all tests of all modules, with the race detector if there is a C compiler
	@go run tools/gotest/main.go -shuffle=on -timeout=20m $(MODULES)

check: ## Run every gate but the tests: format, vet, staticcheck, tidy, generated code, dependencies, 386
	@.ci/check $(MODULES)

generate: ## Make db/ of queries/ and schema/
	@CGO_ENABLED=0 go tool -modfile=tools/go.mod sqlc generate

bench: ## Measure speed and cost beside the barest statements and peers, hand-over, failover, loss; both drivers (an hour)
	@cd driver_test && go run ./bench

matrix: ## Run the conformance suite on PostgreSQL 13 to 18, directly and through PgBouncer (4 to 8 minutes; SHORT=1 for half)
	@cd driver_test && go run ./matrix $(if $(SHORT),-short)

audit: ## Compare all that the suite and the demo send, as the server logs it, with queries/, text for text (4 minutes)
	@cd driver_test && go run ./audit

leaks: ## Acquire and release a million times on each driver and backend, and look for what is left behind: CYCLES=1000000
	@cd driver_test && go run ./leaks -cycles $(CYCLES)

model: ## Check a model of the protocol with Spin, and with one rule taken out at a time (15 minutes; SHORT=1 for less)
	@driver_test/model/run.sh $(if $(SHORT),short)

release: ## Tag the root and every module for users, VERSION=v0.1.0 (nothing is pushed)
	@tools/release.sh "$(VERSION)"

release-check: ## Rehearse a release: install the command and get the adapters from a file proxy, into an empty GOPATH
	@tools/release.sh --check

torture: ## Kill, stop and cut off processes that fight over leases, and check their history: SECONDS=1800 SEED=1
	@cd driver_test && go run ./torture -seconds $(SECONDS) -seed $(SEED)

mutants: ## Take one rule after the other out of a copy, and see that the check which guards it fails
	@cd driver_test && go run ./mutants
