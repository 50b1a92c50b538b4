package ops

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/jsonrpc"
	"github.com/zsidecar/zsidecar/pkg/lightwallet"
	"github.com/zsidecar/zsidecar/pkg/mempool"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/indexer"
)

// Readings are the numbers of one moment.
type Readings struct {
	Facts   Facts
	Zebra   zebrarpc.Stats
	Wallets lightwallet.Stats
	Mempool mempool.Stats
	JSONRPC jsonrpc.Stats // zero while it is off
	Store   index.Stats   // zero while the index is off or not open
	Ready   bool
	Refused uint64 // connections that were closed at once, for want of file descriptors

	TipStream bool          // there is one
	Tips      indexer.Stats // zero without
}

// Build names the program.
type Build struct{ Version, Commit, Go string }

// NewRegistry returns a registry with every metric but those of Requests. Read is called for each scrape.
func NewRegistry(build Build, read func() Readings) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "zsidecar_build_info", Help: "Always 1; the labels name the build.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	})
	info.Set(1)
	r.MustRegister(info, newCollector(read),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metric is one series without labels. Value returns false when there is nothing to show yet.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Readings) (float64, bool)
}

type collector struct {
	read     func() Readings
	metrics  []metric
	served   *prometheus.Desc
	requests *prometheus.Desc
}

func newCollector(read func() Readings) *collector {
	return &collector{
		read:    read,
		metrics: slices.Concat(servingMetrics(), zebraMetrics(), mempoolMetrics(), indexMetrics()),
		served: prometheus.NewDesc("zsidecar_blocks_served_total",
			"Compact blocks handed to clients, by who had them: the index, or zebra.", []string{"source"}, nil),
		requests: prometheus.NewDesc("zsidecar_zebra_requests_total",
			"Questions to Zebra, by JSON-RPC method (or relayed) and outcome (ok, passing, answerable, fatal, canceled).", []string{"method", "outcome"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
	ch <- c.served
	ch <- c.requests
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.read()
	for _, m := range c.metrics {
		if v, ok := m.value(&r); ok {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v)
		}
	}
	for _, origin := range []chain.Origin{chain.FromIndex, chain.FromZebra} {
		ch <- prometheus.MustNewConstMetric(c.served, prometheus.CounterValue, float64(r.Wallets.BlocksServed[origin]), origin.String())
	}
	for _, q := range r.Zebra.Requests {
		ch <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(q.Count), q.Method, q.Outcome)
	}
}

func gauge(name, help string, value func(*Readings) float64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue,
		func(r *Readings) (float64, bool) { return value(r), true }}
}

func counter(name, help string, value func(*Readings) float64) metric {
	m := gauge(name, help, value)
	m.kind = prometheus.CounterValue
	return m
}

// where shows a metric only when known is true.
func (m metric) where(known func(*Readings) bool) metric {
	value := m.value
	m.value = func(r *Readings) (float64, bool) {
		if !known(r) {
			return 0, false
		}
		return value(r)
	}
	return m
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func servingMetrics() []metric {
	return []metric{
		gauge("zsidecar_ready", "1 when /readyz says 200.", func(r *Readings) float64 { return flag(r.Ready) }),
		gauge("zsidecar_framed_writer", "1 when block ranges go out as runs of frames, 0 when one message at a time.",
			func(r *Readings) float64 { return flag(r.Wallets.Framed) }),
		counter("zsidecar_fallback_streams_total", "Streams that had to be sent one message at a time.",
			func(r *Readings) float64 { return float64(r.Wallets.FallbackStreams) }),
		gauge("zsidecar_requests_in_progress", "Requests of wallets now, streams among them.",
			func(r *Readings) float64 { return float64(r.Wallets.Calls) }),
		counter("zsidecar_connections_refused_total", "Connections of clients that were closed at once because file descriptors were running out.",
			func(r *Readings) float64 { return float64(r.Refused) }),
		counter("zsidecar_panics_total", "Requests that ended with INTERNAL because a handler panicked.",
			func(r *Readings) float64 { return float64(r.Wallets.Panics) }),
		gauge("zsidecar_jsonrpc_requests_in_progress", "HTTP requests of JSON-RPC clients now.",
			func(r *Readings) float64 { return float64(r.JSONRPC.Requests) }),
		counter("zsidecar_jsonrpc_refused_total", "HTTP requests of JSON-RPC clients that were answered with another status than 200.",
			func(r *Readings) float64 { return float64(r.JSONRPC.Refused) }),
		counter("zsidecar_jsonrpc_panics_total", "JSON-RPC calls that ended with -32603 because a method panicked.",
			func(r *Readings) float64 { return float64(r.JSONRPC.Panics) }),
	}
}

func zebraMetrics() []metric {
	known := func(r *Readings) bool { return r.Facts.Node.Known }
	streamed := func(r *Readings) bool { return r.TipStream }
	return []metric{
		gauge("zsidecar_tip_stream_running", "1 while Zebra's gRPC server for indexers tells of new tips, 0 while they are found by polling alone.",
			func(r *Readings) float64 { return flag(r.Tips.Running) }).where(streamed),
		counter("zsidecar_tip_stream_messages_total", "New tips that it told of.",
			func(r *Readings) float64 { return float64(r.Tips.Messages) }).where(streamed),
		counter("zsidecar_tip_stream_breaks_total", "How often it ended, or could not be had.",
			func(r *Readings) float64 { return float64(r.Tips.Breaks) }).where(streamed),
		gauge("zsidecar_node_height", "Height of the node's tip as last seen.",
			func(r *Readings) float64 { return float64(r.Facts.Node.ID.Height) }).where(known),
		gauge("zsidecar_node_tip_confirmed_timestamp_seconds", "When the node last named its tip.",
			func(r *Readings) float64 { return float64(r.Facts.Node.Confirmed.UnixMilli()) / 1000 }).where(known),
		gauge("zsidecar_node_missing_methods", "JSON-RPC methods that are needed and that the node does not have; /healthz names them.",
			func(r *Readings) float64 { return float64(len(r.Facts.Missing)) }).where(known),
		gauge("zsidecar_zebra_in_flight", "Requests at Zebra now.", func(r *Readings) float64 { return float64(r.Zebra.InFlight) }),
		gauge("zsidecar_zebra_waiting", "Requests that wait for a permit to be sent to Zebra.",
			func(r *Readings) float64 { return float64(r.Zebra.Waiting) }),
		gauge("zsidecar_zebra_bulk_limit", "Block requests that may be at Zebra at one time; falls when Zebra is overloaded.",
			func(r *Readings) float64 { return float64(r.Zebra.BulkLimit) }),
		gauge("zsidecar_zebra_read_ahead_bytes", "Bytes held or reserved for blocks on their way.",
			func(r *Readings) float64 { return float64(r.Zebra.ReadAhead) }),
		counter("zsidecar_zebra_read_bytes_total", "Bytes of Zebra's replies.", func(r *Readings) float64 { return float64(r.Zebra.BytesRead) }),
		counter("zsidecar_zebra_retries_total", "Repeated requests.", func(r *Readings) float64 { return float64(r.Zebra.Retries) }),
	}
}

func mempoolMetrics() []metric {
	return []metric{
		gauge("zsidecar_mempool_transactions", "Transactions of the node's mempool when it was read last.",
			func(r *Readings) float64 { return float64(r.Mempool.Transactions) }),
		gauge("zsidecar_mempool_bytes", "Bytes of those transactions and of their compact forms.",
			func(r *Readings) float64 { return float64(r.Mempool.Bytes) }),
		gauge("zsidecar_mempool_left_out", "Transactions of the node's mempool that found no room.",
			func(r *Readings) float64 { return float64(r.Mempool.LeftOut) }),
		gauge("zsidecar_mempool_followers", "Wallets that follow the mempool.",
			func(r *Readings) float64 { return float64(r.Mempool.Followers) }),
		counter("zsidecar_mempool_polls_total", "How often the node's mempool was read.",
			func(r *Readings) float64 { return float64(r.Mempool.Polls) }),
		counter("zsidecar_mempool_unreadable_total", "Transactions of the mempool that could not be parsed and have no compact form.",
			func(r *Readings) float64 { return float64(r.Mempool.Unreadable) }),
	}
}

func indexMetrics() []metric {
	open := func(r *Readings) bool { return r.Facts.Index.Open }
	return []metric{
		gauge("zsidecar_index_height", "Height of the index's tip.",
			func(r *Readings) float64 { return float64(r.Facts.Index.Tip.Height) }).where(func(r *Readings) bool { return r.Facts.Index.HasTip }),
		gauge("zsidecar_index_complete", "1 when the index has reached the node's tip and follows it.",
			func(r *Readings) float64 { return flag(r.Facts.Index.Complete) }),
		gauge("zsidecar_build_paused_for_disk", "1 while the build waits for free disk space, or for file descriptors.",
			func(r *Readings) float64 { return flag(r.Facts.Index.Paused) }),
		gauge("zsidecar_build_stopped", "1 while an error that waiting does not cure keeps the build from going on.",
			func(r *Readings) float64 { return flag(r.Facts.Index.Stopped) }),
		gauge("zsidecar_index_sealed_blocks", "Blocks in sealed segments.",
			func(r *Readings) float64 { return float64(r.Store.SealedBlocks) }).where(open),
		gauge("zsidecar_index_recent_blocks", "Blocks near the tip.",
			func(r *Readings) float64 { return float64(r.Store.RecentBlocks) }).where(open),
		gauge("zsidecar_index_segments", "Sealed segments.", func(r *Readings) float64 { return float64(r.Store.Segments) }).where(open),
		gauge("zsidecar_index_corrupt_segments", "Segments found corrupt since the start; Zebra answers for them.",
			func(r *Readings) float64 { return float64(r.Store.CorruptSegments) }).where(open),
		gauge("zsidecar_index_open_snapshots", "Chains that are being read, the present one included.",
			func(r *Readings) float64 { return float64(r.Store.OpenSnapshots) }).where(open),
		gauge("zsidecar_index_disk_bytes", "Bytes that the index occupies on the disk.",
			func(r *Readings) float64 { return float64(r.Store.DiskBytes) }).where(open),
	}
}
