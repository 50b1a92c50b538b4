// Command zsidecar serves Zcash light wallets beside a Zebra node.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops in order; with the handler gone, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	cacheDir, _ := os.UserCacheDir() // without one, data_dir has no default and its check says so
	p := program{name: filepath.Base(os.Args[0]), env: os.Environ(), cacheDir: cacheDir, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(ctx, os.Args[1:]))
}
