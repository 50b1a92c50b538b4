// Package integration holds no program code: its tests run the real zsidecar binary beside a real zebrad on regtest, over real
// sockets, and compare every answer with an expectation that is made from Zebra's own JSON replies (expect_test.go), which shares no
// parser with the program.
//
// Environment:
//
//	ZSIDECAR_ZEBRAD        path of zebrad 7.0.0; scripts/zebrad.sh prints one, building it when needed
//	ZSIDECAR_PYTHON        path of a Python with grpcio and grpcio-tools, the second client stack; scripts/venv.sh prints one
//	ZSIDECAR_WALLET        path of the wallet program; scripts/wallet.sh prints one, building it when needed (wallet/README.md)
//	ZSIDECAR_WALLET_ALL    1 runs the wallet in every combination, and beside Zebra's own wallet server
//	ZSIDECAR_SLOW          1 gives tests of patience their full length, up to three minutes a case
//	ZSIDECAR_COMPARE_ZEBRA 1 lists where Zebra's own wallet server differs from the conformance table (docs/protocol.md)
//	ZSIDECAR_ZAINOD        path of zainod 0.10.2; scripts/zainod.sh prints one, building it when needed (docs/differences.md)
//	ZSIDECAR_REQUIRE_REAL  1 turns every skip for a missing one of these into a failure (CI sets it), except for zainod, which CI does
//	                       not build
//	ZSIDECAR_CACHE         folder outside the checkout that keeps the mined fixture chain between runs
//	ZSIDECAR_BENCH_BLOCKS  blocks of the synthetic chain that the benchmarks of serving use; 100000 when not set, at most 5000000
//
// The fixture chain is mined once and kept in the cache folder; a missing or broken copy is mined again, in about a minute.
package integration
