package config

import (
	"slices"
	"strings"
)

// readEnv takes the ZAINO_ variables and then ours. A name that is not known is ignored with a warning: a container platform may
// put names such as ZAINO_PORT there by itself. Zaino's names may be in small letters, with their prefix.
func (l *loader) readEnv(env []string) {
	env = slices.Sorted(slices.Values(env))
	l.readRustLog(env)
	known, paths, _ := classicIndex()
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if len(name) < len(zainoPrefix) || !strings.EqualFold(name[:len(zainoPrefix)], zainoPrefix) {
			continue
		}
		rest := name[len(zainoPrefix):]
		path := strings.ToLower(strings.ReplaceAll(rest, "__", "."))
		g := given{layer: FromZainoEnv, name: name, value: value, classic: true}
		key, found := known[path]
		switch {
		case secretName(path):
			g.value = ""
			l.refuse(g, "a secret may not come from the environment: write it into the file ("+path+")")
		case !found:
			l.warn("environment variable %s is not a known key and is ignored%s", name, didYouMeanEnv(path, paths))
		default:
			l.setClassic(key, g, "environment variable "+name)
		}
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || name == EnvFile {
			continue
		}
		key := strings.ToLower(rest)
		g := given{layer: FromEnv, name: name, value: value}
		switch _, found := l.keys[key]; {
		case found:
			l.set(key, g)
		case secretName(key):
			g.value = ""
			l.refuse(g, "a secret may not come from the environment: write it into a file and name that with ZSIDECAR_ZEBRA_PASSWORD_FILE")
		default:
			near := nearest(key, l.ownNames())
			if near != "" {
				near = "; did you mean " + l.keys[near].Env() + "?"
			}
			l.warn("environment variable %s is not a known key and is ignored%s", name, near)
		}
	}
}

func didYouMeanEnv(path string, paths []string) string {
	if near := nearest(path, paths); near != "" {
		return "; did you mean " + ClassicKey{Path: near}.Env() + "?"
	}
	return ""
}
