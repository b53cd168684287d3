.PHONY: build test race faults lint vuln generate verify demo bench bench-compare bench-accept lab e2e e2e-node tape clean

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

build:
	go build -ldflags "-X github.com/tapedeck-io/tapedeck/internal/recorder.Version=$(VERSION)" -o bin/ ./cmd/...

# Runs anywhere Go does; what needs root, BPF or the lab says so and is skipped.
test:
	go test ./...

race:
	go test -race ./...

# The tests that kill the recorder, cut its disk's power and flip bits in its store, a hundred times each; as root for all.
faults:
	TAPEDECK_FAULT_ROUNDS=100 go test -count=1 -timeout 60m -run 'Kill|PowerCut|Damaged|FullDisk|Term' ./internal/journal

lint:
	test -z "$$(gofmt -l cmd internal lab profiles schemas)"
	go vet ./...
	go tool staticcheck ./...

# Known vulnerabilities in the code that is called; says so where the database of them cannot be reached.
vuln:
	.ci/vuln

# Makes the code for schemas/events anew; needs protoc (Debian: protobuf-compiler).
generate:
	schemas/generate.sh

verify: generate
	git diff --exit-code -- internal/events/eventpb
	go mod tidy -diff

# A recorded run of the lab, played into the recorder as if live: no cluster, no privileges.
demo: build
	rm -rf out/demo
	bin/recorder run --from-tape testdata/lab.tape --speed 5 --out out/demo
	@echo; cat out/demo/report.txt; echo; ls out/demo

bench: build
	./bench

# What was accepted, side by side with what is now. It is of another machine or another load, unless both files are made
# on yours: then compare the ratios to the peers, which are in both.
bench-compare: build
	mkdir -p out
	./bench -q -n 5 -o out/bench.txt
	go tool benchstat testdata/bench.txt out/bench.txt

# Makes what is now the accepted state; to be committed with what made it faster, or the reason why it is slower.
bench-accept: build
	./bench -q -n 5 -o testdata/bench.txt

# One real node on this machine: Kubernetes and Cilium without kube-proxy. See lab/README.md.
lab:
	lab/up

e2e: build lab
	TAPEDECK_LAB=1 go test -count=1 -timeout 20m -v -run 'TestLab$$' ./lab/e2e
	lab/sources
	TAPEDECK_HUBBLE=$$(lab/exec sh -c 'command -v hubble') go test -count=1 -run 'Hubble|Stories/export' -v ./internal/replay/export ./cmd/replay

# A node with faults, and the deployment's rights, on the lab; not part of e2e yet.
e2e-node: build lab
	TAPEDECK_LAB=1 go test -count=1 -timeout 20m -v -run 'TestNodeFaults|TestRights|TestDaemonSet' ./lab/e2e

# Records testdata/lab.tape anew, with what Cilium's own tools said at its end, and testdata/rolling.tape, with what
# the requests saw and the timeline, and testdata/faults.tape, of a node with faults; to be read before they are kept.
tape: build lab
	TAPEDECK_LAB=1 TAPEDECK_KEEP=$(CURDIR)/testdata go test -count=1 -timeout 20m -v -run 'TestTape|TestRollingTape|TestNodeFaults' ./lab/e2e
	bin/replay timeline testdata/rolling.tape >testdata/rolling.timeline.txt

clean:
	rm -rf bin out
