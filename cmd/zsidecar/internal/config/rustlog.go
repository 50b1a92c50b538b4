package config

import (
	"slices"
	"strings"
)

// readRustLog takes the level from RUST_LOG, and the form of the lines from ZAINOLOG_FORMAT, which Zaino's operators set. Filters for
// modules that this program does not have say nothing here.
func (l *loader) readRustLog(env []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		g := given{layer: FromZainoEnv, name: name}
		switch name {
		case "RUST_LOG":
			if g.value = rustLevel(value); g.value != "" {
				l.set("log_level", g)
			}
		case "ZAINOLOG_FORMAT":
			switch strings.ToLower(value) {
			case "json":
				g.value = "json"
			case "stream", "tree":
				g.value = "text"
			default:
				l.warn("environment variable ZAINOLOG_FORMAT is not stream, tree or json, and is ignored")
				continue
			}
			l.set("log_format", g)
		}
	}
}

// rustLevel returns the level that a RUST_LOG filter gives to this program: that of its own name or Zaino's, else the one without a
// name. Empty when it names none.
func rustLevel(filter string) string {
	levels := map[string]string{"trace": "debug", "debug": "debug", "info": "info", "warn": "warn", "error": "error", "off": "error"}
	ours := []string{"zsidecar", "zainod", "zaino", "zainodlib"}
	general, own := "", ""
	for directive := range strings.SplitSeq(filter, ",") {
		target, level, named := strings.Cut(strings.TrimSpace(directive), "=")
		switch {
		case !named:
			if l, known := levels[strings.ToLower(target)]; known {
				general = l
			}
		case slices.Contains(ours, target):
			if l, known := levels[strings.ToLower(level)]; known {
				own = l
			}
		}
	}
	if own != "" {
		return own
	}
	return general
}
