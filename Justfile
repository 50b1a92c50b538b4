# Every recipe is one line or one script; .ci/run calls the same scripts.

[private]
default:
    @just --list --unsorted

# format, vet, lint and test: what every change must pass
check: fmt lint test

# format all Go code
fmt:
    gofmt -w cmd integration internal pkg proto scripts

# go vet alone
vet:
    go vet ./...

# vet, staticcheck, the import rule, freshness of generated code and documents, tidy go.mod
lint:
    scripts/lint.sh

# all tests that need no Zebra
test:
    go test ./...

# the tests under the race detector
race:
    scripts/race.sh

# every fuzz target whose name matches PATTERN, for TIME
fuzz TIME="10s" PATTERN="^Fuzz":
    scripts/fuzz.sh {{TIME}} '{{PATTERN}}'

# all benchmarks once
bench PATTERN=".":
    go test -run '^$' -bench '{{PATTERN}}' -benchmem ./pkg/...

# serving, memory, new blocks and restarts of the real program beside a simulated node
bench-serve TIME="5x":
    go test -run '^$' -bench 'Serve|Fairness|Unary|Memory|NewBlock|Restart' -benchtime {{TIME}} ./integration

# the 35,000 outputs of one address, beside a real zebrad: the first run mines them for some seven minutes
bench-addresses TIME="3x":
    ZSIDECAR_ZEBRAD="$(scripts/zebrad.sh)" go test -run '^$' -bench AddressOfMany -benchtime {{TIME}} ./integration

# flame graphs of one scenario of `zsidecar bench run`, or of "build", in the folder profiles
profile SCENARIO *ARGS:
    scripts/profile.sh {{SCENARIO}} {{ARGS}}

# zsidecar, zainod and Zebra's own wallet server beside one real zebrad: the first run mines 20,000 blocks for some four minutes
peers *ARGS:
    scripts/peers.sh {{ARGS}}

# benchmarks against a git revision, through benchstat
bench-compare REF PATTERN=".":
    scripts/bench-compare.sh {{REF}} '{{PATTERN}}'

# regenerate the protocol's Go code
proto:
    scripts/proto.sh && git diff --exit-code proto

# rewrite golden files and generated tables; review the diff
golden:
    scripts/golden.sh

# a zebrad on an empty regtest chain, until interrupted
regtest:
    scripts/regtest.sh

# the real-node suite
integration:
    scripts/real.sh

# the differences from Zaino: zainod beside zsidecar and zebrad; -update rewrites docs/differences.md
interop *ARGS:
    scripts/interop.sh {{ARGS}}

# the Dockerfile, the compose files, the unit and the manifests: linted, and run
deploy:
    scripts/deploy.sh

# what the program is made of, as CycloneDX JSON
sbom FILE="sbom.json":
    scripts/sbom.sh {{FILE}}

# check an index
fsck DIR:
    go run ./cmd/zsidecar check {{DIR}}

# tidy both go.mod files
tidy:
    go mod tidy && cd tools && go mod tidy

# zsidecar bench at a server of its own, as every night: OUT gets bench.csv and bench.json
bench-nightly *ARGS:
    scripts/bench-nightly.sh {{ARGS}}

# what takes too long for every change; its figures are in nightly.txt
nightly:
    scripts/nightly.sh
