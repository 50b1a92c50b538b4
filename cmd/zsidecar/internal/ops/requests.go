package ops

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
)

// Requests counts and times the requests of wallets.
type Requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    prometheus.Counter
}

// NewRequests registers the counters.
func NewRequests(r prometheus.Registerer) *Requests {
	q := &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zsidecar_requests_total", Help: "Requests of wallets that ended, by method and gRPC status code.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zsidecar_request_duration_seconds", Help: "Time from a request to its end; a stream ends when its reader is done.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms to 26 s
		}, []string{"method"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zsidecar_block_bytes_served_total", Help: "Bytes of compact blocks in requests that ended, with their gRPC prefixes.",
		}),
	}
	r.MustRegister(q.total, q.duration, q.bytes)
	return q
}

// Observe counts one request; it is the wallet server's Observe function.
func (q *Requests) Observe(c lightwallet.Call) {
	method := c.Method[strings.LastIndexByte(c.Method, '/')+1:]
	q.total.WithLabelValues(method, c.Code.String()).Inc()
	q.duration.WithLabelValues(method).Observe(c.Duration.Seconds())
	q.bytes.Add(float64(c.Bytes))
}

// JSONCalls counts and times the calls of JSON-RPC clients.
type JSONCalls struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewJSONCalls registers the counters.
func NewJSONCalls(r prometheus.Registerer) *JSONCalls {
	c := &JSONCalls{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zsidecar_jsonrpc_calls_total",
			Help: "JSON-RPC calls that ended, by method (or other) and the code of their error: ok without one, broken when the reply could not be sent.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zsidecar_jsonrpc_call_duration_seconds", Help: "Time from a JSON-RPC call to the end of its reply.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms to 26 s
		}, []string{"method"}),
	}
	r.MustRegister(c.total, c.duration)
	return c
}

// Observe counts one call; it is the JSON-RPC server's Observe function.
func (c *JSONCalls) Observe(call jsonrpc.Call) {
	code := strconv.Itoa(call.Code)
	switch call.Code {
	case 0:
		code = "ok"
	case jsonrpc.BrokenOff:
		code = "broken"
	}
	c.total.WithLabelValues(call.Method, code).Inc()
	c.duration.WithLabelValues(call.Method).Observe(call.Duration.Seconds())
}
