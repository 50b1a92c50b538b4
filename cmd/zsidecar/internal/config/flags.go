package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for every key that has one, or only for the named keys. The defaults shown are for the help; Load has its own.
func AddFlags(flags *pflag.FlagSet, cacheDir string, only ...string) {
	for _, k := range Keys() {
		if k.HasFlag && (len(only) == 0 || slices.Contains(only, k.Name)) {
			addFlag(flags, k, expandDefault(k.Default, cacheDir))
		}
	}
}

func addFlag(flags *pflag.FlagSet, k Key, defaultText string) {
	f := flags.VarPF(&flagValue{key: k, text: defaultText}, k.Flag(), "", strings.ReplaceAll(k.Doc, "`", ""))
	if k.Kind == Switch {
		f.NoOptDefVal = "true"
	}
}

// flagValue keeps the text; Load reads it with those of the other layers, so that one place checks all of them.
type flagValue struct {
	key  Key
	text string
}

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Set(s string) error { v.text = s; return nil }

// Type is the name of the flag's argument in the help.
func (v *flagValue) Type() string {
	if v.key.Kind == Switch {
		return "bool" // pflag shows no argument for it
	}
	return v.key.Arg
}
