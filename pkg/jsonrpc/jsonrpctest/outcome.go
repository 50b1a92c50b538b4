package jsonrpctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Outcomes asks nobody: it names in few words how two answers to a question differ, the same words for the same kind of difference:
// "result", "error -8", "HTTP 405", and the members that are not the same. Both are "" where the answers are equal.
func Outcomes(q Question, a, b Answer) (ofA, ofB string) {
	if a.text(q) == b.text(q) {
		return "", ""
	}
	ofA, ofB = a.outcome(), b.outcome()
	if ofA != ofB {
		return ofA, ofB
	}
	members := Members(a.Body, b.Body, q.Changing)
	if a.ContentType != b.ContentType {
		members = append(members, "other Content-Type")
	}
	if len(members) == 0 {
		members = []string{"same values, written otherwise"}
	}
	return ofA, ofB + ": " + strings.Join(members, ", ")
}

// outcome is what kind of reply it is.
func (a Answer) outcome() string {
	var reply struct {
		Error *struct{ Code json.Number }
	}
	switch {
	case a.Closed:
		return "no reply"
	case a.Status != 200:
		return fmt.Sprintf("HTTP %d", a.Status)
	case len(a.Body) == 0:
		return "empty reply"
	case a.Body[0] == '[':
		return "batch"
	case json.Unmarshal(a.Body, &reply) != nil:
		return "no JSON"
	case reply.Error != nil:
		return "error " + reply.Error.Code.String()
	}
	return "result"
}

// Members are the paths of the members that are not the same in two JSON texts, in the order of the alphabet: "lacks" those that the second
// does not have, "adds" those that the first does not have, "other" where the values differ. Members of these names may have any value.
func Members(a, b []byte, changing []string) []string {
	values := make([]any, 2)
	for i, text := range [][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			return []string{"other text"}
		}
	}
	c := &comparison{changing: changing}
	c.compare("", values[0], values[1])
	slices.Sort(c.found)
	return slices.Compact(c.found)
}

type comparison struct {
	changing []string
	found    []string
}

func (c *comparison) compare(path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			c.compareObjects(path, a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			if len(a) != len(b) {
				c.found = append(c.found, "other number of "+path+"[]")
			}
			for i := range min(len(a), len(b)) {
				c.compare(path+"[]", a[i], b[i])
			}
			return
		}
	default:
		if a == b {
			return
		}
	}
	c.found = append(c.found, "other "+path)
}

func (c *comparison) compareObjects(path string, a, b map[string]any) {
	prefix := path
	if path != "" {
		prefix += "."
	}
	for name, value := range a {
		other, ok := b[name]
		switch {
		case !ok:
			c.found = append(c.found, "lacks "+prefix+name)
		case !slices.Contains(c.changing, name):
			c.compare(prefix+name, value, other)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			c.found = append(c.found, "adds "+prefix+name)
		}
	}
}
