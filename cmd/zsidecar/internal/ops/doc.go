// Package ops is what an operator's machines look at: the HTTP port with metrics and health.
//
// Assess is the one place that decides whether the program is ready; the health paths, the gRPC health service and the log all follow it.
// Metrics are read from the packages' Stats when they are asked for; only requests are counted here, by Requests.
package ops
