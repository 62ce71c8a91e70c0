# `make` prints what there is to make.
SHELL := bash
LINT  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VALE  := github.com/vale-cli/vale/v3/cmd/vale@v3.22.0
VULN  := golang.org/x/vuln/cmd/govulncheck@v1.8.0
FUZZ  ?= 30s
KILLS ?= 50
FIRE  ?= 240

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/weir
	go build -o bin/ ./cmd/...

.PHONY: test
test: ## run the tests, all but the long ones; what cannot be had on this machine is named and skipped
	go test -timeout 15m ./...

# The long tests call real.Long(t); test/house checks that this finds them all.
.PHONY: long
long: ## run the long tests: parts killed under load, race-built daemons with nginx, a real Kafka and Redis
	@files=$$(grep -rl --include='*_test.go' 'real\.Long(t)' cmd internal pkg test) && \
	tests=$$(awk '/^func Test/ { split($$2, name, "(") } /real\.Long\(t\)/ { print name[1] }' $$files | sort -u | paste -sd '|' -) && \
	WEIR_LONG=1 go test -count 1 -timeout 20m -run "^($$tests)$$" $$(echo "$$files" | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: race
race: ## run the tests with the race detector, all but the long ones
	go test -race -timeout 20m ./...

.PHONY: tidy
tidy: ## gofmt and go mod tidy would change nothing
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	go mod tidy -diff

.PHONY: check
check: tidy prose ## the linter of prose and golangci-lint, which has vet, find nothing
	go run $(LINT) run

.PHONY: prose
prose: ## words to avoid in documents and comments (docs/glossary.md); LEVEL=warning shows long sentences too
	@mkdir -p bin && GOBIN=$(CURDIR)/bin go install $(VALE) || { echo "prose: NOT CHECKED, vale cannot be built here"; exit 0; }; \
	bin/vale --output=line --minAlertLevel=$(or $(LEVEL),error) *.md docs deployments examples ./cmd ./pkg ./internal ./test && echo "prose: no words to avoid"

.PHONY: vuln
vuln: ## known vulnerabilities in the code that we call; a line where their database cannot be reached
	@database=$${GOVULNDB:-https://vuln.go.dev}; said=$$(curl -sSfm 20 -o /dev/null $$database/index/modules.json 2>&1) || { \
		echo "govulncheck: NOT CHECKED, its database cannot be reached: $$said"; exit 0; }; \
	mkdir -p bin && GOBIN=$(CURDIR)/bin go install $(VULN) && \
	if found=$$(bin/govulncheck ./... 2>&1); then echo "govulncheck: no known vulnerabilities"; else echo "$$found"; exit 1; fi

.PHONY: bench
bench: ## measure what docs/benchmarks.md says
	go test -run '^$$' -bench . -benchtime 2s ./...

.PHONY: bench-peers
bench-peers: ## measure Weir next to what people use today, on a log that grows and on a full one; makes tables; takes long
	@set -o pipefail; go test -run '^$$' -bench Live -benchtime 1x -timeout 60m -v ./test/bench | go run ./test/bench/table && { \
		go test -run '^$$' -bench 'Peers/(weir|gawk)' -benchtime 1x -count 3 -v ./test/bench && \
		go test -run '^$$' -bench 'Peers/(goaccess|fail2ban|crowdsec)|FileToBlocklist' -benchtime 1x -timeout 60m -v ./test/bench; \
	} | go run ./test/bench/table

.PHONY: bench-ratelimit
bench-ratelimit: ## measure rate limits over gRPC next to Envoy's rate limit service, with one Redis; makes a table
	@set -o pipefail; WEIR_REQUIRE_REAL=1 go test -run '^$$' -bench RateLimit -benchtime 1x -timeout 30m ./test/bench | go run ./test/bench/table

.PHONY: e2e
e2e: ## race-built daemons, a real Kafka, Redis and nginx: who asks for too much is refused, and let in again
	WEIR_LONG=1 WEIR_REQUIRE_REAL=1 go test -count 1 -timeout 15m ./test/e2e

.PHONY: hostile
hostile: ## 3,000 random requests of each kind through each edge: who is blocked gets nothing, who is not is counted
	WEIR_REQUIRE_REAL=1 WEIR_RANDOM_REQUESTS=3000 WEIR_RANDOM_SEED=$$(date +%s) go test -run Random -count 1 -v -timeout 60m ./test/edges

.PHONY: latency
latency: ## from the line that breaks a limit to the first refusal: histograms at 1 k and 50 k lines/s
	WEIR_REQUIRE_REAL=1 go test -run '^$$' -bench Latency -benchtime 1x -timeout 30m -v ./test/e2e

.PHONY: bench-river
bench-river: ## from a topic to the blocklist, next to a job of Kafka Streams, and from a file; makes tables; takes long
	@set -o pipefail; WEIR_REQUIRE_REAL=1 go test -run '^$$' -bench 'FileToBlocklist|River/.*/.*/(weir|weir-three-collectors|streams)$$' -benchtime 1x -timeout 120m -v ./test/bench | \
		go run ./test/bench/table

.PHONY: bench-takeover
bench-takeover: ## how long detection stands still when aggregators are killed, stopped and started, on real Kafka; makes a table
	@set -o pipefail; WEIR_REQUIRE_REAL=1 go test -run '^$$' -bench Takeover -benchtime 1x -count 5 -timeout 60m -v ./test/crash | go run ./test/bench/table

.PHONY: crash
crash: ## kill every part KILLS (50) times, and aggregators for FIRE (240) seconds over 5 M hits, on real Kafka and Redis
	WEIR_LONG=1 WEIR_REQUIRE_REAL=1 WEIR_CRASH_KILLS=$(KILLS) WEIR_FIRE_HITS=5000000 WEIR_FIRE_KEYS=200000 WEIR_FIRE_SECONDS=$(FIRE) \
		go test -count 1 -v -timeout 60m ./test/crash

.PHONY: hotset
hotset: ## 10 M keys through an aggregator that holds 100 k of them, on Redis and on disk
	WEIR_LONG=1 WEIR_REQUIRE_REAL=1 WEIR_HOT_KEYS=10000000 go test -count 1 -v -timeout 60m -run ManyKeys ./test/crash

.PHONY: kafka
kafka: ## obtain a real Kafka, start it on free ports of this machine until Ctrl-C, and say where it is
	go run ./test/kafka

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ (30s)
	@for package in $$(git grep -l 'func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -ho 'func Fuzz[A-Za-z0-9]*' $$package/*_test.go | cut -c6-); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ) -fuzzminimizetime 5x ./$$package || exit 1; \
		done; \
	done
