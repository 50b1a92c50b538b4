package zebrarpc

import (
	"bytes"
	"context"
	"fmt"

	"github.com/valyala/fastjson"
)

// askList puts a question whose answer holds a list that may be long, and gives its items to each as JSON text, one by one: as a whole
// they would take many times the space of their text in the JSON parser. opening is the member and the bracket with which the list
// begins. The rest of the result, with an empty list, goes to rest, which may be nil. Errors of each and rest are fatal, as in ask.
func askList(ctx context.Context, c *Client, q *query, opening string, each func(i int, item []byte) error, rest func(*fastjson.Value) error) error {
	a, err := c.interactive(ctx, q)
	if err != nil {
		return c.locate(q, err)
	}
	return c.read(q, a, func(p *fastjson.Parser) error {
		body := *a.body
		list, envelope, found := cutList(body, opening)
		if !found { // an error, or no list at all
			envelope = body
		}
		v, err := parseReply(p, envelope, a.id)
		switch {
		case err != nil:
			return err
		case !found:
			return fatal(hintReply, "the reply is wrong: the result is %s, without a list", text(v))
		}
		if err = eachItem(list, each); err == nil && rest != nil {
			err = rest(v)
		}
		if err != nil {
			return fatal(hintReply, "the reply is wrong: %w", err)
		}
		return nil
	})
}

// cutList returns what is between the brackets of the list that begins with opening, which has no list inside it and is the last of the
// document, and the document without that.
func cutList(body []byte, opening string) (list, envelope []byte, found bool) {
	start := bytes.Index(body[:min(len(body), 256)], []byte(opening))
	end := bytes.LastIndexByte(body, ']')
	if start < 0 {
		return nil, nil, false
	}
	if start += len(opening); end < start {
		return nil, nil, false
	}
	return body[start:end], append(append(make([]byte, 0, start+len(body)-end), body[:start]...), body[end:]...), true
}

// eachItem cuts a list into its items: strings, or objects without an object inside. A comma or brace within a string would cut an item
// in two, and neither half is anything then.
func eachItem(list []byte, each func(i int, item []byte) error) error {
	for i := 0; ; i++ {
		list = bytes.TrimSpace(list)
		if len(list) == 0 {
			return nil
		}
		if i > 0 {
			if list[0] != ',' {
				return fmt.Errorf("item %d: a comma is missing before %.80s", i, list)
			}
			list = bytes.TrimSpace(list[1:])
		}
		end := bytes.IndexByte(list, ',')
		if len(list) > 0 && list[0] == '{' {
			if end = bytes.IndexByte(list, '}'); end >= 0 {
				end++
			}
		}
		if end < 0 {
			end = len(list)
		}
		if err := each(i, bytes.TrimSpace(list[:end])); err != nil {
			return err
		}
		list = list[end:]
	}
}
