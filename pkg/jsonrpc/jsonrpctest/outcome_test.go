package jsonrpctest

import (
	"slices"
	"testing"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	reply := func(body string) Answer {
		return Answer{Status: 200, ContentType: "application/json", Body: []byte(body)}
	}
	q := Question{Changing: []string{"time"}}
	for name, c := range map[string]struct {
		a, b         Answer
		wantA, wantB string
	}{
		"the same":            {reply(`{"result":1}`), reply(`{"result":1}`), "", ""},
		"a changing value":    {reply(`{"result":{"time":1}}`), reply(`{"result":{"time":2}}`), "", ""},
		"an error":            {reply(`{"result":1}`), reply(`{"error":{"code":-8,"message":"x"}}`), "result", "error -8"},
		"another error":       {reply(`{"error":{"code":-1,"message":"x"}}`), reply(`{"error":{"code":-8,"message":"x"}}`), "error -1", "error -8"},
		"another text":        {reply(`{"error":{"code":-8,"message":"x"}}`), reply(`{"error":{"code":-8,"message":"y"}}`), "error -8", "error -8: other error.message"},
		"no reply":            {reply(`{"result":1}`), Answer{Closed: true}, "result", "no reply"},
		"another status":      {reply(`{"result":1}`), Answer{Status: 405}, "result", "HTTP 405"},
		"nothing":             {reply(`{"result":1}`), reply(``), "result", "empty reply"},
		"no JSON":             {reply(`{"result":1}`), reply(`x`), "result", "no JSON"},
		"batches":             {reply(`[{"result":1}]`), reply(`[{"result":2}]`), "batch", "batch: other [].result"},
		"a number's spelling": {reply(`{"result":1.0}`), reply(`{"result":1}`), "result", "result: other result"},
		"the order":           {reply(`{"id":1,"result":1}`), reply(`{"result":1,"id":1}`), "result", "result: same values, written otherwise"},
		"the type":            {reply(`{"result":1}`), Answer{Status: 200, ContentType: "text/plain", Body: []byte(`{"result":1}`)}, "result", "result: other Content-Type"},
	} {
		if a, b := Outcomes(q, c.a, c.b); a != c.wantA || b != c.wantB {
			t.Errorf("%s: %q and %q, want %q and %q", name, a, b, c.wantA, c.wantB)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	a := `{"x":1,"same":null,"gone":true,"list":[{"v":1},{"v":2}],"short":[1,2],"shape":{},"now":5}`
	b := `{"x":2,"same":null,"more":true,"list":[{"v":1},{"v":3}],"short":[1],"shape":[],"now":6}`
	want := []string{"adds more", "lacks gone", "other list[].v", "other number of short[]", "other shape", "other x"}
	if got := Members([]byte(a), []byte(b), []string{"now"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
