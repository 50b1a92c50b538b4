#!/usr/bin/env bash
# Dockerfile, compose.yaml and deploy/: linters, then the tests of the module deploy with nothing skipped. As root on Debian; what is
# missing is installed. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
for program in buildah:buildah bash-static:bash-static systemd-analyze:systemd; do
	command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
ZSIDECAR_ZEBRAD=${ZSIDECAR_ZEBRAD:-$(scripts/zebrad.sh)}
python=${ZSIDECAR_PYTHON:-$(scripts/venv.sh)}
ZSIDECAR_BASH=$(command -v bash-static)
export ZSIDECAR_ZEBRAD ZSIDECAR_BASH ZSIDECAR_REQUIRE_REAL=1

"$(dirname "$python")/hadolint" Dockerfile >&2
# The schema of a ServiceMonitor is not among Kubernetes' own: the tests decode it into the type of its operator.
"$(dirname "$python")/kubernetes-validate" --strict --quiet deploy/kubernetes/zsidecar.yaml >&2
(cd deploy && go vet ./... && go mod tidy -diff) >&2
cd deploy && go test -count=1 -timeout 10m "$@" ./...
