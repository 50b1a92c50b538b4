package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// documents are the YAML documents of a file by their kind, decoded so that an unknown field is an error.
func decode(t *testing.T, path string, into map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		target, known := into[kind.Kind]
		if !known {
			t.Fatalf("%s: unexpected kind %q", path, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), target); err != nil {
			t.Errorf("%s: %s: %v", path, kind.Kind, err)
		}
		delete(into, kind.Kind)
	}
	for kind := range into {
		t.Errorf("%s lacks a %s", path, kind)
	}
}

// The manifests fit the types of their API and one another.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	var (
		settings core.ConfigMap
		service  core.Service
		set      apps.StatefulSet
		monitor  monitoring.ServiceMonitor
	)
	decode(t, "kubernetes/zsidecar.yaml", map[string]any{"ConfigMap": &settings, "Service": &service, "StatefulSet": &set})
	decode(t, "kubernetes/servicemonitor.yaml", map[string]any{"ServiceMonitor": &monitor})

	pod := set.Spec.Template
	c := pod.Spec.Containers[0]
	ports := make(map[string]int32)
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range service.Spec.Ports {
		if ports[p.TargetPort.String()] != p.Port {
			t.Errorf("the service's port %s leads to %s, which is %d", p.Name, p.TargetPort.String(), ports[p.TargetPort.String()])
		}
	}
	for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if ports[probe.HTTPGet.Port.String()] == 0 {
			t.Errorf("a probe asks port %s, which there is not", probe.HTTPGet.Port.String())
		}
	}
	labels := pod.Labels
	for _, selector := range []map[string]string{service.Spec.Selector, set.Spec.Selector.MatchLabels} {
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("the selector %s=%s misses the pod", key, value)
			}
		}
	}
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the monitor's selector %s=%s misses the service", key, value)
		}
	}
	if monitor.Spec.Endpoints[0].Port != "http" {
		t.Errorf("the monitor asks port %q", monitor.Spec.Endpoints[0].Port)
	}
	if want := "ghcr.io/zsidecar/zsidecar:" + release(t); c.Image != want {
		t.Errorf("the image is %s, want %s", c.Image, want)
	}

	// The program takes the settings as they are.
	file := filepath.Join(t.TempDir(), "zsidecar.toml")
	if err := os.WriteFile(file, []byte(settings.Data["zsidecar.toml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	got := output(t, binary, "config", "check", "--config", file)
	if strings.Contains(got, "warning:") || !strings.Contains(got, "zsidecar.data_dir") {
		t.Errorf("the settings are not taken whole:\n%s", got)
	}
}

// The unit is right by systemd's own judgement, and exposes little.
func TestSystemd(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze")
	text, err := os.ReadFile("systemd/zsidecar.service")
	if err != nil {
		t.Fatal(err)
	}
	const program = "/usr/local/bin/zsidecar"
	if !strings.Contains(string(text), "ExecStart="+program+" ") {
		t.Fatalf("the unit does not start %s", program)
	}
	unit := filepath.Join(t.TempDir(), "zsidecar.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), program, binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	judged := output(t, analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit)
	if !regexp.MustCompile(`Overall exposure level for zsidecar.service: [01]\.\d OK`).MatchString(judged) {
		t.Errorf("the unit exposes more than it did:\n%s", judged)
	}
}

// Every place that names the image names the version that the program has.
func TestImageVersion(t *testing.T) {
	t.Parallel()
	services := project(t, "../compose.yaml").Services
	if got, want := services["zsidecar"].Image, "ghcr.io/zsidecar/zsidecar:"+release(t); got != want {
		t.Errorf("compose.yaml: %s, want %s", got, want)
	}
}
