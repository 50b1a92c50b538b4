package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Value is one setting in force.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // as a user would write it; "[hidden]" for a secret, empty when it is not set
	Source string `json:"source"` // where it came from, such as "flag --grpc" or "z.toml:3: zsidecar.grpc"
	Secret bool   `json:"-"`
	kind   Kind
}

// Explain returns every setting in force in the order of Keys, and at the end the password when Zaino's file holds one. Warnings and
// the error are those of Load.
func Explain(src Sources) ([]Value, []string, error) {
	l, err := gather(src)
	if err != nil {
		return nil, l.warnings, err
	}
	var values []Value
	for _, k := range Keys() {
		g, set := l.given[k.Name]
		if !set {
			g = given{layer: FromDefault, name: k.Name}
		}
		values = append(values, l.explain(k, g))
	}
	if l.config.ZebraPassword != "" {
		// It comes from the file that zebra_password_file names, or from Zaino's key.
		g := l.given["zebra_password_file"]
		if l.config.ZebraPasswordFile == "" {
			g = l.given[passwordKey]
		}
		values = append(values, Value{Key: "zebra_password", Value: l.config.ZebraPassword.String(), Source: l.source(g), Secret: true})
	}
	return values, l.warnings, nil
}

// explain shows a value as the file may hold it.
func (l *loader) explain(k Key, g given) Value {
	v := Value{Key: k.Name, Value: g.value, Source: l.source(g), kind: k.Kind}
	if on, err := parseSwitch(g.value); k.Kind == Switch && err == nil {
		v.Value = strconv.FormatBool(on)
	}
	inForce, auth := map[string]string{
		"zebra_cookie": l.config.ZebraCookie, "zebra_user": l.config.ZebraUser, "zebra_password_file": l.config.ZebraPasswordFile,
	}[k.Name]
	if auth && inForce == "" && g.value != "" {
		v.Value, v.Source = "", v.Source+", not in force"
	}
	return v
}

func (l *loader) source(g given) string {
	if g.layer == FromDefault {
		if g.classic {
			return "default of Zaino's " + g.name
		}
		return "default"
	}
	return l.valueError(g, "").where()
}

// TOML returns the value as the file would hold it.
func (v Value) TOML() string { return tomlText(v.kind, v.Value) }

func tomlText(kind Kind, text string) string {
	if kind == Text {
		return fmt.Sprintf("%q", text)
	}
	return text
}

// Generate returns a file of settings with every default, as a start for one's own: of our keys, or of Zaino's classic ones. Settings
// without a default are left out.
func Generate(src Sources) string {
	var b strings.Builder
	if src.Zaino {
		b.WriteString("# Configuration of zsidecar in the classic form of Zaino 0.8 to 0.10, every key with its default.\n" +
			"# Keys of zsidecar's own may stand in a table [zsidecar]; `zainod config check` shows what is in force.\n\n")
		generateClassic(&b, src)
		return b.String()
	}
	b.WriteString("# Configuration of zsidecar, every key with its default; `zsidecar config check` shows what is in force.\n\n[zsidecar]\n")
	for _, k := range Keys() {
		text := expandDefault(k.Default, src.CacheDir)
		fmt.Fprintf(&b, "\n# %s\n", strings.ReplaceAll(k.Doc, "`", ""))
		if text == "" {
			fmt.Fprintf(&b, "# %s = %s\n", k.Name, tomlText(k.Kind, ""))
			continue
		}
		fmt.Fprintf(&b, "%s = %s\n", k.Name, tomlText(k.Kind, text))
	}
	return b.String()
}

func generateClassic(b *strings.Builder, src Sources) {
	section := ""
	for _, k := range ClassicKeys() {
		text := expandDefault(k.Default, src.CacheDir)
		if text == "" {
			continue
		}
		name := k.Path
		if i := strings.LastIndexByte(k.Path, '.'); i >= 0 {
			if k.Path[:i] != section {
				section = k.Path[:i]
				fmt.Fprintf(b, "\n[%s]\n", section)
			}
			name = k.Path[i+1:]
		}
		comment := ""
		if k.Means == "" {
			comment = " # " + k.effect()
		}
		fmt.Fprintf(b, "%s = %s%s\n", name, tomlText(k.Kind, text), comment)
	}
}
