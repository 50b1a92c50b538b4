package config

import (
	"bytes"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyLines returns the line, from 1, of every key and table of a TOML text, by dotted path. The text has been decoded before, so that
// errors cannot occur.
func keyLines(text []byte) map[string]int {
	lines := make(map[string]int)
	var p unstable.Parser
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = noteKey(lines, text, "", e)
		case unstable.KeyValue:
			noteKey(lines, text, table, e)
		}
	}
	return lines
}

// noteKey notes the line of one key or table header, those of the keys of its inline table, and returns its path.
func noteKey(lines map[string]int, text []byte, path string, n *unstable.Node) string {
	for parts := n.Key(); parts.Next(); {
		part := parts.Node()
		path = dotted(path, string(part.Data))
		if _, known := lines[path]; !known {
			lines[path] = 1 + bytes.Count(text[:part.Raw.Offset], []byte("\n"))
		}
	}
	if n.Kind == unstable.KeyValue && n.Value().Kind == unstable.InlineTable {
		for inner := n.Value().Children(); inner.Next(); {
			if inner.Node().Kind == unstable.KeyValue {
				noteKey(lines, text, path, inner.Node())
			}
		}
	}
	return path
}

func dotted(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}
