package zebrarpc

import (
	"context"
	"errors"

	"github.com/valyala/fastjson"
)

// codeNoMethod is JSON-RPC's code for a method that does not exist.
const codeNoMethod = -32601

// MissingMethods asks the node for every method that this package ever asks for, without parameters, and returns the names of those that
// it says it does not know. The others answer, or find fault with the parameters: it costs the node next to nothing. It fails when the
// node cannot be asked.
func (c *Client) MissingMethods(ctx context.Context) (missing []string, err error) {
	for m := range relayed {
		switch known, err := c.knows(ctx, m); {
		case err != nil:
			return nil, err
		case !known:
			missing = append(missing, m.String())
		}
	}
	return missing, nil
}

// knows tells whether the node has a method. Whatever it says to the question, but that there is no such method, means that it has.
func (c *Client) knows(ctx context.Context, m method) (bool, error) {
	q := query{method: m, limit: callLimit, tries: callTries}
	a, err := c.interactive(ctx, &q)
	if err != nil {
		return false, c.locate(&q, err)
	}
	known := true
	err = c.read(&q, a, func(p *fastjson.Parser) error {
		_, err := parseReply(p, *a.body, a.id)
		var e *Error
		known = !errors.As(err, &e) || e.Code != codeNoMethod
		return nil // an error was to be expected: the parameters are missing
	})
	return known, err
}
