package chain

import "context"

type turnKey struct{}

// WithTurn returns a context for a question that may cost the node's processor much: whoever has to put it to the node calls TakeTurn
// first, which waits in take. What is answered from memory waits for nobody.
func WithTurn(ctx context.Context, take func(context.Context) (done func(), err error)) context.Context {
	return context.WithValue(ctx, turnKey{}, take)
}

// TakeTurn waits in the take of WithTurn; without one it is anybody's turn. It fails as take does. When err is nil, done must be called
// once, after the node's answer.
func TakeTurn(ctx context.Context) (done func(), err error) {
	take, ok := ctx.Value(turnKey{}).(func(context.Context) (func(), error))
	if !ok {
		return func() {}, nil
	}
	return take(ctx)
}

type clientKey struct{}

// WithClient returns a context for what is done for a client: who asks the node for it shares what the node can do among clients. The
// client is anything comparable.
func WithClient(ctx context.Context, client any) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// ClientOf returns the client of WithClient, nil when there is none.
func ClientOf(ctx context.Context) any { return ctx.Value(clientKey{}) }
