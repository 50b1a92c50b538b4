package zebrarpc

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

func TestEachItem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		list string
		want []string
	}{
		{"", nil},
		{" \n", nil},
		{`"a"`, []string{`"a"`}},
		{` "a" , "b"`, []string{`"a"`, `"b"`}},
		{`{"x":1,"y":2},{"x":3}`, []string{`{"x":1,"y":2}`, `{"x":3}`}},
		{`{}`, []string{`{}`}},
		{`"a",`, []string{`"a"`, ``}}, // the empty item is refused by whoever reads it
		{`,`, []string{``, ``}},
		{`{"x":1`, []string{`{"x":1`}},
	} {
		var got []string
		if err := eachItem([]byte(test.list), func(i int, item []byte) error {
			if i != len(got) {
				t.Errorf("%s: item %d is number %d", test.list, len(got), i)
			}
			got = append(got, string(item))
			return nil
		}); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v; want %q", test.list, got, err, test.want)
		}
	}
	if err := eachItem([]byte(`{} {}`), func(int, []byte) error { return nil }); err == nil {
		t.Error("two objects without a comma are taken")
	}
}

// A list of strings or flat objects without commas and braces in their texts is cut where encoding/json cuts it; whatever else comes,
// nothing panics and no byte is in two items.
func FuzzEachItem(f *testing.F) {
	for _, s := range []string{``, `"a","b"`, `{"x":1,"y":2},{"x":3}`, `{"x":"}"}`, `1,2`, `{`, `,,`, `"a" "b"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		if len(list) > 1<<12 {
			return
		}
		var got [][]byte
		total := 0
		err := eachItem(list, func(_ int, item []byte) error {
			got = append(got, item)
			total += len(item)
			return nil
		})
		if total > len(list) {
			t.Fatalf("%q: %d bytes in items", list, total)
		}
		var want []json.RawMessage
		if json.Unmarshal(slices.Concat([]byte("["), list, []byte("]")), &want) != nil {
			return
		}
		for _, item := range want {
			if flat := item[0] == '"' && !bytes.Contains(item, []byte(",")); !flat {
				var members map[string]json.Number
				if item[0] != '{' || json.Unmarshal(item, &members) != nil || bytes.Count(item, []byte("}")) != 1 {
					return
				}
			}
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %d items, %v; want %d", list, len(got), err, len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%q: item %d is %q, want %q", list, i, got[i], want[i])
			}
		}
	})
}
