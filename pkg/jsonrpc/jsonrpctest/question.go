// Package jsonrpctest asks two JSON-RPC servers the same questions and compares the answers to the byte: a Zebra, real or simulated,
// and the server that claims to answer as it does. It is for tests alone.
package jsonrpctest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// Question is one HTTP request.
type Question struct {
	Verb, ContentType, Body string
	// Changing are members of the answer whose values are other ones each time; their values are not compared.
	Changing []string
	// Unordered: the members of objects come in another order each time.
	Unordered bool
}

// Call is a JSON-RPC 2.0 question. Params is JSON text; "" leaves it out.
func Call(method, params string) Question {
	if params != "" {
		params = `,"params":` + params
	}
	return Body(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"` + params + `}`)
}

// Body is a question with any body.
func Body(text string) Question {
	return Question{Verb: http.MethodPost, ContentType: "application/json", Body: text}
}

func (q Question) String() string {
	return fmt.Sprintf("%s (%s) %.300s", q.Verb, q.ContentType, q.Body)
}

// Server is who is asked.
type Server struct {
	URL        string
	CookieFile string // read for each question; "": none
}

// Answer is all that a client can tell of a reply.
type Answer struct {
	Closed      bool // the connection was closed without a reply
	Status      int
	ContentType string
	Body        []byte
}

// Ask puts a question on a connection of its own.
func (s Server) Ask(ctx context.Context, q Question) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, q.Verb, s.URL, strings.NewReader(q.Body))
	if err != nil {
		return Answer{}, err
	}
	if q.ContentType != "" {
		req.Header.Set("Content-Type", q.ContentType)
	}
	if s.CookieFile != "" {
		cookie, err := os.ReadFile(s.CookieFile)
		if err != nil {
			return Answer{}, err
		}
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(cookie))
	}
	req.Close = true // a kept connection that dies would hide behind a silent second try
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{Closed: true}, ctx.Err()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", q, err)
	}
	return Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: body}, nil
}

// Compare asks both and says where the answers differ; nil when they do not.
func Compare(ctx context.Context, zebra, server Server, q Question) error {
	want, err := zebra.Ask(ctx, q)
	if err != nil {
		return err
	}
	got, err := server.Ask(ctx, q)
	if err != nil {
		return err
	}
	if a, b := want.text(q), got.text(q); a != b {
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		at = max(0, at-100)
		return fmt.Errorf("%s\n\tzebra: %.600s\n\tours:  %.600s", q, a[min(at, len(a)):], b[min(at, len(b)):])
	}
	return nil
}

// text is the whole answer in one text, without the values that change.
func (a Answer) text(q Question) string {
	if a.Closed {
		return "closed without a reply"
	}
	body := string(a.Body)
	if q.Unordered {
		body = sorted(body)
	}
	for _, name := range q.Changing {
		value := regexp.MustCompile(`("` + regexp.QuoteMeta(name) + `"):("([^"\\]|\\.)*"|[^,\]}]*)`)
		body = value.ReplaceAllString(body, `$1:…`)
	}
	return fmt.Sprintf("%d (%s) %s", a.Status, a.ContentType, body)
}

// sorted puts the members of all objects into the order of the alphabet; numbers keep their spelling.
func sorted(text string) string {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return text
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return string(canonical)
}
