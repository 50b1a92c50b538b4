#!/usr/bin/env bash
# Dockerfile, compose.yaml and deploy/: linters, then the tests of the module deploy with nothing skipped. As root on Debian; what is
# missing is installed. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
for program in buildah:buildah bash-static:bash-static systemd-analyze:systemd qemu-aarch64-static:qemu-user-static; do
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
# kubeconform would fetch the schemas: it gets those of a Python package, whose absolute names for one another lead nowhere, as files beside
# one another. That of a ServiceMonitor is not among Kubernetes' own: the tests decode it into the type of its operator.
schemas=$(mktemp -d)
trap 'rm -rf "$schemas"' EXIT
given=$("$python" -c 'import importlib.resources as r; print(r.files("kubernetes_validate"))')/kubernetes-json-schema/v1.37.0-local-strict
for name in _definitions configmap-v1 service-v1 statefulset-apps-v1; do
	sed -e 's|"$id": "|"$comment": "|' -e 's|"/api/_definitions.json#|"_definitions.json#|' "$given/$name.json" >"$schemas/$name.json"
done
go tool -modfile=tools/go.mod kubeconform -strict -summary -schema-location "$schemas/{{.ResourceKind}}{{.KindSuffix}}.json" \
	deploy/kubernetes/zsidecar.yaml >&2
(cd deploy && go vet ./... && go mod tidy -diff) >&2
cd deploy && go test -count=1 -timeout 10m "$@" ./...
