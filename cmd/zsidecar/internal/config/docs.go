package config

import (
	"fmt"
	"strings"
)

// Markdown returns the operator guide's two tables: our keys, and Zaino's.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key in `[zsidecar]` | flag | default | meaning |\n|---|---|---|---|\n")
	for _, k := range Keys() {
		flag := "–"
		if k.HasFlag {
			flag = "`--" + k.Flag() + "`"
		}
		value := "–"
		if k.Default != "" {
			value = "`" + k.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, flag, value, k.Doc)
	}
	b.WriteString("\n| Zaino's classic key | here |\n|---|---|\n")
	for _, k := range ClassicKeys() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Path, k.effect())
	}
	return b.String()
}

func (k ClassicKey) effect() string {
	switch {
	case k.Means == "":
		return "ignored: " + k.Note
	case k.Means == passwordKey:
		return "the password of `zebra_user`; in the file only"
	case k.Means == "json_rpc_cookie_dir":
		return "`json_rpc_cookie_dir`; an empty one means `$XDG_RUNTIME_DIR/zaino/.cookie`, else `/tmp/zaino/.cookie`"
	case k.Means == "data_dir":
		return "`data_dir`, in the sub-folder `zsidecar`, so that Zaino's own database stays as it is"
	}
	return "`" + k.Means + "`"
}
