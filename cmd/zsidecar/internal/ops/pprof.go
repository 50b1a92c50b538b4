package ops

import (
	"net/http"
	"net/http/pprof"
)

// NewPprofHandler returns the handler of the port on which profiles of the program are read, under /debug/pprof/ as `go tool pprof` asks
// for them. Profiles tell what the program holds in memory and slow it down: the port is for the operator alone.
func NewPprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
