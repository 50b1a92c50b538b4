package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
)

// ownTable is the table of the file that holds our keys.
const ownTable = "zsidecar"

// readFile takes the file's values: Zaino's keys first, so that [zsidecar] is the stronger. The error is for a file that cannot be
// read at all.
func (l *loader) readFile() error {
	text, err := os.ReadFile(l.file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("read the configuration: %w: let the user of this process, %d, read it", err, os.Getuid())
	case err != nil:
		return fmt.Errorf("read the configuration: %w: give the path of a TOML file, or leave --config away", err)
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return fmt.Errorf("%s:%d:%d: not TOML: %w", l.file, line, column, err)
		}
		return fmt.Errorf("%s: not TOML: %w", l.file, err)
	}
	l.lines = keyLines(text)
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if _, table := tree[name].(map[string]any); table && isNewSchema(name) {
			return fmt.Errorf("%s: [%s] belongs to Zaino's new configuration schema: this program reads the classic one of Zaino 0.8 to 0.10, and its own keys under [%s]",
				l.at(name), name, ownTable)
		}
	}
	own, _ := tree[ownTable].(map[string]any)
	if _, present := tree[ownTable]; present && own == nil {
		l.refuse(given{layer: FromFile, name: ownTable, value: fmt.Sprint(tree[ownTable])}, "must be a table: write [zsidecar] on a line of its own")
	}
	delete(tree, ownTable)
	l.readClassic("", tree)
	l.readOwn(own)
	return nil
}

func (l *loader) readOwn(table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		g := given{layer: FromFile, name: ownTable + "." + name}
		key, known := l.keys[name]
		if !known {
			l.warn("%s: %s is not a known key and is ignored%s", l.at(g.name), g.name, didYouMean(name, l.ownNames()))
			continue
		}
		text, kind, ok := scalar(table[name])
		g.value = text
		if !ok || kind != key.Kind {
			l.refuse(g, map[Kind]string{
				Text:   "must be a text in quotes",
				Switch: "must be true or false, without quotes",
				Number: "must be a whole number, without quotes",
			}[key.Kind])
			continue
		}
		l.set(name, g)
	}
}

// readClassic walks Zaino's tables.
func (l *loader) readClassic(section string, table map[string]any) {
	known, paths, sections := classicIndex()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := dotted(section, name)
		if sub, ok := table[name].(map[string]any); ok && slices.Contains(sections, path) {
			l.readClassic(path, sub)
			continue
		}
		if slices.Contains(sections, path) {
			l.refuse(given{layer: FromFile, name: path}, "must be a table: write ["+path+"] on a line of its own")
			continue
		}
		text, _, ok := scalar(table[name])
		g := given{layer: FromFile, name: path, value: text, classic: true}
		key, found := known[path]
		switch {
		case !found && strictSection(section):
			g.value = "" // it may be a table, or a secret
			l.refuse(g, "is not a known key: remove it"+l.orWrite(path, append(paths, sections...)))
		case !found:
			l.warn("%s: %s is not a known key and is ignored%s", l.at(path), path, didYouMean(path, paths))
		case !ok:
			g.value = ""
			l.refuse(g, "must be a single value")
		default:
			l.setClassic(key, g, l.at(path)+": "+path)
		}
	}
}

// setClassic turns one of Zaino's values into ours.
func (l *loader) setClassic(key ClassicKey, g given, where string) {
	switch {
	case key.Means == "":
		l.warn("%s has no effect: %s", where, key.Note)
	default:
		if key.conv != nil {
			converted, err := key.conv(g.value)
			if err != nil {
				l.refuse(g, err.Error())
				return
			}
			g.value = converted
		}
		l.set(key.Means, g)
	}
}

// classicIndex returns Zaino's keys by path, the paths alone, and the tables they are in.
func classicIndex() (known map[string]ClassicKey, paths, sections []string) {
	known = make(map[string]ClassicKey)
	for _, k := range ClassicKeys() {
		known[k.Path] = k
		paths = append(paths, k.Path)
		for i, r := range k.Path {
			if r == '.' && !slices.Contains(sections, k.Path[:i]) {
				sections = append(sections, k.Path[:i])
			}
		}
	}
	return known, paths, sections
}

// scalar returns a TOML value as a user would write it in the environment. ok is false for arrays, tables and dates.
func scalar(v any) (text string, kind Kind, ok bool) {
	switch v := v.(type) {
	case string:
		return v, Text, true
	case bool:
		return strconv.FormatBool(v), Switch, true
	case int64:
		return strconv.FormatInt(v, 10), Number, true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), Text, true
	}
	return fmt.Sprint(v), Text, false
}

func didYouMean(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func (l *loader) orWrite(path string, candidates []string) string {
	if _, own := l.keys[path]; own {
		return ", or put it under [" + ownTable + "]"
	}
	if near := nearest(path, candidates); near != "" {
		return ", or write " + near
	}
	return ""
}
