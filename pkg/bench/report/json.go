package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// maxJSON bounds what ReadJSON reads, in bytes. A run of all scenarios at three targets takes some 2 MB.
const maxJSON = 256 << 20

// WriteJSON writes a result so that ReadJSON gives it back. A value that JSON has no number for (NaN) is an error.
func WriteJSON(w io.Writer, r *bench.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// ReadJSON reads what WriteJSON wrote. Another version, unknown members, anything behind the result, and a result that contradicts itself
// are errors that say where.
func ReadJSON(from io.Reader) (*bench.Result, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxJSON+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxJSON {
		return nil, fmt.Errorf("longer than %d bytes: no result of zsidecar bench", maxJSON)
	}
	var layout struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &layout); err != nil {
		return nil, fmt.Errorf("no result of zsidecar bench: %w%s", err, where(data, err))
	}
	switch {
	case layout.Version == nil:
		return nil, errors.New(`no result of zsidecar bench: "version" is missing`)
	case *layout.Version != bench.ResultVersion:
		return nil, fmt.Errorf("a result of version %d, and this program reads version %d: use the zsidecar that wrote it",
			*layout.Version, bench.ResultVersion)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	r := new(bench.Result)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%w%s", err, where(data, err))
	}
	return r, validate(r)
}

// where names the line of a JSON error, or nothing.
func where(data []byte, err error) string {
	var offset int64
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		return ""
	}
	return fmt.Sprintf(" (line %d)", 1+bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")))
}

// validate finds what a run never gives, so that whoever draws a result need not look.
func validate(r *bench.Result) error {
	names := map[string]bool{}
	for i, t := range r.Targets {
		if t.Name == "" || names[t.Name] {
			return fmt.Errorf("target %d is called %q, as no other or none may be", i+1, t.Name)
		}
		names[t.Name] = true
	}
	for i := range r.Measurements {
		m := &r.Measurements[i]
		if err := validateMeasurement(m, names); err != nil {
			return fmt.Errorf("measurement %d (%s, %s, %s): %w", i+1, Plain(m.Scenario), Plain(m.Case), Plain(m.Target), err)
		}
	}
	for i, c := range r.Curves {
		switch {
		case !names[c.Target]:
			return fmt.Errorf("curve %d is of target %q, which is not listed", i+1, c.Target)
		case len(c.Seconds) != len(c.Values):
			return fmt.Errorf("curve %d (%s, %s) has %d times and %d values", i+1, c.Scenario, c.Target, len(c.Seconds), len(c.Values))
		case !slices.IsSorted(c.Seconds):
			return fmt.Errorf("curve %d (%s, %s) goes back in time", i+1, c.Scenario, c.Target)
		case slices.ContainsFunc(c.Seconds, impossible) || slices.ContainsFunc(c.Values, impossible):
			return fmt.Errorf("curve %d (%s, %s) has a value below 0 or above %g", i+1, c.Scenario, c.Target, float64(maxValue))
		}
	}
	return nil
}

// maxValue is more than anything that is measured: bytes a second, or seconds.
const maxValue = 1e18

func impossible(v float64) bool { return !(v >= 0 && v <= maxValue) }

func validateMeasurement(m *bench.Measurement, targets map[string]bool) error {
	switch {
	case m.Scenario == "" || m.Case == "":
		return errors.New("has no scenario or no case")
	case !targets[m.Target]:
		return errors.New("its target is not listed")
	case m.Clients < 1:
		return fmt.Errorf("%d clients", m.Clients)
	case m.Client != "" && m.Client != bench.Decoding && m.Client != bench.Counting:
		return fmt.Errorf("client %q is unknown", m.Client)
	case m.Latencies != nil && len(m.Latencies) != len(bench.Percentiles()):
		return fmt.Errorf("has %d latencies for %d percentiles", len(m.Latencies), len(bench.Percentiles()))
	case !slices.IsSorted(m.Latencies):
		return errors.New("its latencies do not ascend")
	case slices.ContainsFunc(m.Latencies, impossible):
		return fmt.Errorf("has a latency below 0 or above %g", float64(maxValue))
	}
	for i, round := range m.Rounds {
		for metric, v := range round {
			if _, ok := scaleOf(metric); !ok {
				return fmt.Errorf("round %d has the unknown metric %q", i+1, metric)
			}
			if impossible(v) {
				return fmt.Errorf("round %d: %s is %v", i+1, metric, v)
			}
		}
	}
	return nil
}
