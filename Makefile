# The targets are the project's interface. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES := config e2e host plugins/browser plugins/mcp plugins/python plugins/shell providers sdk sdk/codemode
VERSION ?= 0.1.0+$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PREFIX  ?= /usr/local
BIN     := $(CURDIR)/bin
PROVIDERS := $(notdir $(patsubst %/,%,$(dir $(wildcard providers/cmd/*/main.go))))
STAMP    = -X main.version=$(VERSION)
# A compiler lives for seconds: what it would spend on collecting garbage it need not. The limit keeps small machines out of it.
LAVISH   = GOGC=800 GOMEMLIMIT=1GiB
GOBUILD  = $(LAVISH) CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w $(STAMP) $(PINS)"
TOOLBIN := $(CURDIR)/.cache/tools

export GOFLAGS += -buildvcs=false

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s $$'\t'

.PHONY: build
build: ## build all binaries into bin/
	@mkdir -p $(BIN)
	@$(GOBUILD) -o $(BIN)/gantry-launch ./host/cmd/gantry-launch
	@$(GOBUILD) -o $(BIN)/gantry-tui ./host/cmd/gantry-tui
	@$(GOBUILD) -o $(BIN)/gantry-tool-shell ./plugins/shell
	@$(GOBUILD) -o $(BIN)/gantry-tool-browser ./plugins/browser
	@$(GOBUILD) -o $(BIN)/gantry-tool-mcp ./plugins/mcp
	@$(GOBUILD) -o $(BIN)/gantry-tool-python ./plugins/python
	@$(GOBUILD) -o $(BIN)/gantry-codemode ./sdk/codemode/cmd/gantry-codemode
	@for p in $(PROVIDERS); do $(GOBUILD) -o $(BIN)/gantry-provider-$$p ./providers/cmd/$$p; done
	@# gantry knows the plugins of its own build by their content, so it comes last.
	@$(MAKE) $(BIN)/gantry $(BIN)/gantry-postgres PINS="-X main.builtins=$$(cd $(BIN) && sha256sum gantry-tool-shell gantry-tool-browser gantry-tool-mcp gantry-tool-python $(addprefix gantry-provider-,$(PROVIDERS)) | awk '{printf "%s%s=%s", sep, $$2, $$1; sep=","}')"
	@echo "built $(VERSION) into bin/: $$(ls $(BIN) | tr '\n' ' ')"

.PHONY: $(BIN)/gantry $(BIN)/gantry-postgres
$(BIN)/gantry $(BIN)/gantry-postgres:
	@$(GOBUILD) -o $@ ./host/cmd/$(@F)

.PHONY: demo
demo: ## let an agent fix a small broken program: no key, no network
	@scripts/setup demo
	@$(MAKE) build
	@scripts/demo

.PHONY: install
install: build ## install into PREFIX (default /usr/local)
	@install -d $(DESTDIR)$(PREFIX)/bin
	@install -m 0755 $(BIN)/* $(DESTDIR)$(PREFIX)/bin/
	@echo "installed into $(DESTDIR)$(PREFIX)/bin"

.PHONY: test
test: ## set up what is missing and run everything that CI runs
	@scripts/setup test
	@$(MAKE) lint
	@$(MAKE) cross
	@$(MAKE) build
	@scripts/test

.PHONY: smoke
smoke: build ## ask the real vendors whose keys are in the environment (costs a few cents)
	@cd e2e && GANTRY_SMOKE=1 GANTRY_BIN=$(BIN) go test -count=1 -v -timeout 15m ./smoke

.PHONY: cross
cross: $(TOOLBIN)/crossvet ## vet for the other systems
	@$(LAVISH) $< darwin,windows $(addprefix ./,$(addsuffix /...,config host plugins/browser plugins/mcp plugins/python plugins/shell providers sdk sdk/codemode))

.PHONY: lint
lint: $(TOOLBIN)/staticcheck ## formatting, vet, staticcheck, contract and generated code
	@$(LAVISH) GOMEMLIMIT=3GiB scripts/lint # which holds all packages at once

.PHONY: generate
generate: tools ## write generated code anew
	@scripts/generate

.PHONY: bench
bench: build ## measure what docs/performance.md promises
	@scripts/bench

.PHONY: soak
soak: build ## the long forms: fuzzing, kill runs, repeated race runs
	@scripts/soak

.PHONY: tools
tools:
	@mkdir -p $(TOOLBIN)
	@cd tools && GOWORK=off go build -o $(TOOLBIN)/ tool

$(TOOLBIN)/staticcheck: tools/go.mod
	@mkdir -p $(TOOLBIN)
	@cd tools && $(LAVISH) GOWORK=off CGO_ENABLED=0 go build -trimpath -o $@ honnef.co/go/tools/cmd/staticcheck

$(TOOLBIN)/crossvet: tools/crossvet/go.mod tools/crossvet/main.go
	@mkdir -p $(TOOLBIN)
	@cd tools/crossvet && $(LAVISH) GOWORK=off CGO_ENABLED=0 go build -trimpath -o $@ .

.PHONY: clean
clean: ## remove what was built
	@rm -rf $(BIN) .cache
