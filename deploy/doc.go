// Package deploy holds no program code: its tests prove the files of this folder, compose.yaml and the Dockerfile. The compose files
// are parsed and their services are run as plain processes with a real zebrad; the image is built and run with buildah; the manifests
// are held against the types of their API.
//
// It is a module of its own, so that the program does not carry the libraries of these tests.
//
// Environment:
//
//	ZSIDECAR_ZEBRAD        path of zebrad 7.0.0; scripts/zebrad.sh prints one
//	ZSIDECAR_BASH          path of Debian's bash-static, for the image
//	ZSIDECAR_REQUIRE_REAL  1 turns every skip for something that is missing into a failure (CI sets it)
package deploy
