package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
)

// zainoName is the name under which the program takes the place of Zaino's: a symbolic link, or the binary renamed.
const zainoName = "zainod"

// zaino tells whether the program was started as zainod.
func (p *program) zaino() bool { return p.name == zainoName }

func (p *program) commandName() string {
	if p.zaino() {
		return zainoName
	}
	return "zsidecar"
}

// zainoFlags lets --config stand before the command too, and without one: files of the time before Zaino had commands do that.
func (p *program) zainoFlags(root *cobra.Command) {
	p.configFlag(root.PersistentFlags())
	root.Long += "\n\nStarted as zainod it takes the place of Zaino: the same arguments, files, environment and defaults."
}

// zainoFiles are the places of Zaino's file, the first that exists is taken.
func zainoFiles(env []string) (paths []string) {
	if dir := lookup(env, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		paths = append(paths, filepath.Join(dir, "zaino", "zainod.toml"))
	}
	if home := lookup(env, "HOME"); home != "" {
		paths = append(paths, filepath.Join(home, ".config", "zaino", "zainod.toml"))
	}
	return append(paths, "/tmp/zaino/.config/zaino/zainod.toml")
}

// firstFile returns the first path at which there is something, or "". What cannot be read is an error for whoever opens it.
func firstFile(paths []string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			return path
		}
	}
	return ""
}

// startLog is where the log of a server goes: as zainod where Zaino's goes, which is standard output but for the form that is a tree.
func (p *program) startLog() io.Writer {
	if !p.zaino() || strings.EqualFold(lookup(p.env, "ZAINOLOG_FORMAT"), "tree") {
		return p.stderr
	}
	return p.stdout
}

// mentionZaino names the databases of Zaino that lie beside the index. They are never touched: an operator may go back to Zaino.
func mentionZaino(log *slog.Logger, cfg config.Config) {
	for _, network := range []string{"mainnet", "testnet", "regtest"} {
		path := filepath.Join(filepath.Dir(cfg.DataDir), network, "v1", "data.mdb")
		if info, err := os.Stat(path); err == nil {
			log.Info("Zaino's database is left as it is; when you do not go back to Zaino, delete its folder to free the space",
				"file", path, "bytes", info.Size(), "folder", filepath.Dir(filepath.Dir(path)))
		}
	}
}
