package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	local := TargetOptions{Name: "a", Address: "127.0.0.1:9"}
	for _, tt := range []struct {
		name string
		o    Options
		want string // empty: the options are right
	}{
		{"nothing", Options{}, "no target"},
		{"twice", Options{Targets: []TargetOptions{local, local}}, `two targets are called "a"`},
		{"no name", Options{Targets: []TargetOptions{{Address: "127.0.0.1:9"}}}, "a name is needed"},
		{"no port", Options{Targets: []TargetOptions{{Name: "a", Address: "127.0.0.1"}}}, "no host:port"},
		{"elsewhere", Options{Targets: []TargetOptions{{Name: "a", Address: "192.0.2.1:9"}}}, "--i-own-this-server"},
		{"elsewhere by name", Options{Targets: []TargetOptions{{Name: "a", Address: "zec.example:9"}}}, "--i-own-this-server"},
		{"everywhere", Options{Targets: []TargetOptions{{Name: "a", Address: "0.0.0.0:9"}}}, "--i-own-this-server"},
		{"scenario", Options{Targets: []TargetOptions{local}, Scenarios: []string{"speed"}}, `no scenario "speed"`},
		{"client", Options{Targets: []TargetOptions{local}, Clients: []Client{"fast"}}, `no client "fast"`},
		{"short round", Options{Targets: []TargetOptions{local}, RoundTime: 3}, "a round of 3ns: it must be from 1ms to 1h0m0s"},
		{"long round", Options{Targets: []TargetOptions{local}, RoundTime: 1 << 62}, "it must be from 1ms to 1h0m0s"},
		{"address", Options{Targets: []TargetOptions{local}, Address: "nonsense"}, `the address "nonsense": it is no transparent address`},
		{"unified address", Options{Targets: []TargetOptions{local}, Address: "u1nonsense"}, "send the transparent address"},
		{"main address", Options{Targets: []TargetOptions{local}, Address: "t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"}, ""},
		{"test address", Options{Targets: []TargetOptions{local}, Address: "tmGys6dBuEGjch5LFnhdo5gpSa7jiNRWse6"}, ""},
		{"invisible name", Options{Targets: []TargetOptions{{Name: "a\u202eb", Address: "127.0.0.1:9"}}}, "of characters that can be seen"},
		{"name of other bytes", Options{Targets: []TargetOptions{{Name: "a\xff", Address: "127.0.0.1:9"}}}, "of characters that can be seen"},
		{"name of other letters", Options{Targets: []TargetOptions{{Name: "ä|\"<", Address: "127.0.0.1:9"}}}, ""},
		{"rounds", Options{Targets: []TargetOptions{local}, Rounds: -1}, "negative"},
		{"client twice", Options{Targets: []TargetOptions{local}, Clients: []Client{Counting, Counting}}, `"counting" is named twice`},
		{"scenario twice", Options{Targets: []TargetOptions{local}, Scenarios: []string{"latency", "latency"}}, `"latency" is named twice`},
		{"port in words", Options{Targets: []TargetOptions{{Name: "a", Address: "127.0.0.1:http"}}}, `the port "http" must be`},
		{"port too high", Options{Targets: []TargetOptions{{Name: "a", Address: "127.0.0.1:65536"}}}, `the port "65536" must be`},
		{"no process", Options{Targets: []TargetOptions{{Name: "a", Address: "127.0.0.1:9", PID: 1 << 30}}}, "process 1073741824"},
		{"own", Options{Targets: []TargetOptions{{Name: "a", Address: "192.0.2.1:9"}}, OwnServers: true}, ""},
		{"localhost", Options{Targets: []TargetOptions{{Name: "a", Address: "localhost:9"}}}, ""},
		{"six", Options{Targets: []TargetOptions{{Name: "a", Address: "[::1]:9"}}}, ""},
	} {
		err := tt.o.Check()
		if tt.want == "" && err == nil {
			continue
		}
		var input *InputError
		if tt.want == "" || err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &input) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestInterruptedBeforeAnyAnswer ends a run while a server that never answers is waited for: that is an interruption, and nothing of grpc-go.
func TestInterruptedBeforeAnyAnswer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	result, err := Run(ctx, quick(TargetOptions{Name: "one", Address: silent.Addr().String()}))
	if !errors.Is(err, context.Canceled) || result == nil || len(result.Faults) > 0 {
		t.Fatalf("%v: %+v", err, result)
	}
	if text, err := json.Marshal(result); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("lists of nothing are not empty ones: %v, %s", err, text)
	}
}

// cutAsker has got some messages when the time is over.
type cutAsker struct{ messages int64 }

func (a cutAsker) ask(ctx context.Context, _ *question) (Answer, error) {
	return Answer{Messages: a.messages, Bytes: 10 * a.messages}, ctx.Err()
}

func (cutAsker) close() {}

// TestAnswerWithoutEnd cuts answers: one that had to go on counts, one that has more than everything is wrong.
func TestAnswerWithoutEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got round
	if _, err := new(run).ask(ctx, new(target), cutAsker{100}, blockRange(1, 100), &got); err != nil || got.blocks != 100 || got.calls != 0 {
		t.Errorf("as many as there are: %v, %+v", err, got)
	}
	_, err := new(run).ask(ctx, new(target), cutAsker{101}, blockRange(1, 100), &got)
	if err == nil || !strings.Contains(err.Error(), "101 messages came and no end, want 100") || got.blocks != 100 {
		t.Errorf("more than there are: %v, %+v", err, got)
	}
}
