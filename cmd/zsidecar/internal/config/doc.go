// Package config reads the settings of the program: one table of keys, one struct, one check.
//
// A setting comes from five places, each stronger than the one before: the default, the TOML file, the ZAINO_ environment, the
// ZSIDECAR_ environment, the flag. Keys lists our own settings; ClassicKeys lists the settings of Zaino's classic file and says
// which of ours each one means. Flags, environment names, the TOML table [zsidecar] and the operator guide's tables all come from
// these two lists.
//
// Secrets are read from files only. An error names where the value came from, the key, the value and what to write instead.
package config
