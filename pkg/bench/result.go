package bench

import (
	"slices"
	"time"
)

// ResultVersion is the layout of a Result as JSON; another one is refused.
const ResultVersion = 1

// Result is one run: what was measured, on what, and what was found wrong. It is what the JSON file holds.
type Result struct {
	Version      int           `json:"version"` // ResultVersion
	Started      time.Time     `json:"started"` // UTC
	Seconds      float64       `json:"seconds"` // how long the run took
	Command      string        `json:"command"` // the command line that repeats it
	Machine      Machine       `json:"machine"`
	Targets      []Target      `json:"targets"` // in the order of the command line
	Measurements []Measurement `json:"measurements"`
	Curves       []Curve       `json:"curves,omitempty"`
	Faults       []Fault       `json:"faults,omitempty"`
	Notes        []Fault       `json:"notes,omitempty"` // what is worth saying and not wrong; Target may be empty: all of them
}

// Machine is what the run was made on.
type Machine struct {
	CPU    string `json:"cpu"` // as the processor names itself
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"` // bytes
	System string `json:"system"` // operating system and kernel
	Tool   string `json:"tool"`   // version of zsidecar that measured
}

// Target is one server as it described itself at the start of the run.
type Target struct {
	Name    string `json:"name"`    // as the command line calls it
	Address string `json:"address"` // host:port
	Server  string `json:"server"`  // vendor and version of GetLightdInfo
	Node    string `json:"node"`    // Zebra's version, as the server tells it
	Chain   string `json:"chain"`   // chain name of GetLightdInfo
	Height  uint32 `json:"height"`  // its tip
	TLS     bool   `json:"tls"`
}

// Client says what the measuring client does with what it receives.
type Client string

// The clients.
const (
	Decoding Client = "decoding" // decodes every message, as wallets do
	Counting Client = "counting" // reads the frames' prefixes and checks and counts them
)

// Metric names a value of a round together with its unit.
type Metric string

// The metrics. Times are seconds, rates are per second, sizes are bytes.
const (
	CallsRate   Metric = "calls/s"
	BlocksRate  Metric = "blocks/s"
	BytesRate   Metric = "bytes/s" // of messages, without HTTP/2's own
	P50         Metric = "p50"
	P95         Metric = "p95"
	P99         Metric = "p99"
	Max         Metric = "max"
	First       Metric = "first"            // from the call to the first message, the median of the round's calls
	Duration    Metric = "duration"         // from the first call of the round to the end of its last
	ServerBlock Metric = "server CPU/block" // CPU seconds of the server's process, kernel time included
	ServerCall  Metric = "server CPU/call"
	ServerCPU   Metric = "server CPU"   // CPU seconds in the round
	ClientCPU   Metric = "client CPU"   // CPU seconds of the measuring process in the round
	RSSAnon     Metric = "RSS anon"     // the server's anonymous memory at its highest in the round
	RSSFile     Metric = "RSS file"     // the server's mapped files at that moment
	Written     Metric = "written"      // bytes that the server's process sent to the disk
	Size        Metric = "size"         // allocated bytes of the server's directory
	FirstAnswer Metric = "first answer" // from the start of the process to the first answer
	Complete    Metric = "complete"     // from the start of the process to the complete index
	StopTime    Metric = "stop"         // from SIGTERM to the end of the process
	Share       Metric = "min/max"      // bytes of the slowest by bytes of the fastest of equal clients
)

// Measurement is one case of one scenario at one target.
type Measurement struct {
	Scenario string `json:"scenario"` // latency, ranges, concurrency, …
	Case     string `json:"case"`     // GetBlock, "range of 1000", …
	Client   Client `json:"client,omitempty"`
	Clients  int    `json:"clients"`          // concurrent ones, at least 1
	Length   uint64 `json:"length,omitempty"` // blocks of a range; 0: no range
	Target   string `json:"target"`           // name of a Target

	// Rounds are the values of each round; round i of one case was measured at every target before round i+1 at any.
	Rounds []map[Metric]float64 `json:"rounds"`
	// Latencies are the times of all calls of all rounds at Percentiles, in seconds. Nil: single calls were not timed.
	Latencies []float64 `json:"latencies,omitempty"`
	// Unsupported is the target's own word when it does not offer what the case asks; Rounds is empty then.
	Unsupported string `json:"unsupported,omitempty"`
}

// Curve is a value over time, such as the height of an index that is being built.
type Curve struct {
	Scenario string    `json:"scenario"`
	Target   string    `json:"target"`
	Unit     string    `json:"unit"`    // of Values: "height"
	Seconds  []float64 `json:"seconds"` // since the start of the process, ascending
	Values   []float64 `json:"values"`  // as many
}

// Fault is a wrong answer, or a call that failed.
type Fault struct {
	Scenario string `json:"scenario"`
	Case     string `json:"case"`
	Target   string `json:"target"`
	Text     string `json:"text"` // what was expected and what came
}

// Stat is the median of the rounds of one metric with its spread.
type Stat struct {
	Median, Low, High float64
	Rounds            int
}

// Stat gives the median, the lowest and the highest of the rounds that have the metric; false: none has.
func (m *Measurement) Stat(metric Metric) (Stat, bool) {
	var values []float64
	for _, round := range m.Rounds {
		if v, ok := round[metric]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Stat{}, false
	}
	slices.Sort(values)
	n := len(values)
	median := values[n/2]
	if n%2 == 0 {
		median = (values[n/2-1] + values[n/2]) / 2
	}
	return Stat{Median: median, Low: values[0], High: values[n-1], Rounds: n}, true
}

// Percentiles are the points at which Latencies are kept, in percent, ascending from 0 (the shortest) to 100 (the longest).
func Percentiles() []float64 {
	p := make([]float64, 0, 120)
	for i := range 100 {
		p = append(p, float64(i))
	}
	for i := range 10 {
		p = append(p, 99+float64(i)/10)
	}
	return append(slices.Compact(p), 99.95, 99.99, 100)
}
