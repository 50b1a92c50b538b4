package lightwallet

import (
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Sizes of what clients send.
const (
	// A transaction is at most 2,000,000 bytes (consensus); the protocol lets SendTransaction's message have 4 MiB, so that an
	// oversized one gets the method's own answer.
	maxSendTransactionRequest = 4 << 20
	// The largest other request is a list of 20,000 mempool suffixes of 32 bytes, about 700 kB.
	maxRequest = 1 << 20
	// What SendTransaction passes on: the node could put no longer one into a block.
	maxTransaction = chain.MaxBlockSize
	// What a wallet may exclude from the mempool: more than any mempool holds, Zebra's some 8,000 transactions.
	maxSuffixes = 20_000
	// Wallets send a handful of short headers; grpc-go would take 16 MiB of them from anybody.
	maxHeaderBytes = 16 << 10
)

// What one connection may hold.
const (
	// A stalled stream costs up to four runs of 64 KiB, so this is what bounds a connection to tens of MiB, yet leaves room for a proxy
	// that carries many wallets over one connection. (What streams about addresses hold is bounded where they are read.) Clients that
	// know HTTP/2 wait or open another connection when they reach it.
	maxConcurrentStreams = 256
	// Receive windows. Only SendTransaction's request is longer than a few kB. Fixed windows also keep grpc-go from measuring the
	// bandwidth with a ping per request, which costs more than a small answer.
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20
	// One system call per run or two; the buffer is shared by idle connections and held only while bytes wait in it.
	writeBufferSize = 64 << 10
	// Requests fit; it is held by every connection, idle ones too.
	readBufferSize = 8 << 10
	// A run waiting behind another keeps the socket busy while the next one is being read; a third would only cost memory.
	maxQueuedRuns = 2
	// Goroutines that wait for calls. A new one begins with a small stack, which is copied several times on its way down to the index:
	// that is a tenth of what a small call takes. When all are busy, with ranges above all, each further call gets a new goroutine.
	callWorkers = 64
)

// Times of a connection.
const (
	// Wallets ping every 10 s, also when they ask nothing; half of it leaves room for jitter. grpc-go closes connections that ping
	// more often than this.
	minClientPing = 5 * time.Second
	// Our own pings find dead peers. Each wakes a phone's radio, so they are rare.
	serverPing = time.Minute
	// A reader that stops reading its socket for minutes cannot answer pings either and is no dead peer.
	serverPingTimeout = 10 * time.Minute
	// From accept to the client's first HTTP/2 frame. A stop waits for it, and must be over in 10 s.
	handshakeTimeout = 5 * time.Second
	// An HTTP/1.1 client may still be sending its body when we have answered; closing with bytes unread would destroy the answer.
	lingerTimeout = time.Second
	lingerBytes   = 256 << 10
)

// Times of answers.
const (
	// What the node says of itself changes with each block at most, and wallets ask for it at every start.
	nodeInfoFresh = time.Second
	// The protocol's time for a question of this kind, to whoever it was put.
	nodeInfoLimit = 10 * time.Second
	// With an older answer at hand it is better to give that than to wait longer for a node that hangs.
	nodeInfoPatience = 3 * time.Second
	// The protocol's 30 s for the node's answer about trees, and 10 s for the turn before it. An answer takes more than one question, and
	// may be waited for with others who asked before, so that each question's own time is not enough of a bound.
	treesWithin = 40 * time.Second
	// Told to clients that met a full queue. A queue turns over in about this time.
	retryDelay = 5 * time.Second
)

// What requests about transparent addresses may ask for.
const (
	// Zebra takes as many in one question (MAX_REQUEST_ADDRESSES).
	maxAddresses = 10_000
	// Three times the chain of today; whoever names more has confused something.
	maxAddressSpan = 10_000_000
	// A unary answer is put together in memory. Some 500,000 outputs fit; the stream has no such limit.
	defaultUnaryReply = 64 << 20
)

// What may cost the node's processor at one time (costly.go).
const (
	// Each piece of work keeps one or a few of Zebra's threads busy. The client of Zebra has its own bound beside the blocks that are
	// read at the same time; this one keeps the queue before it short, so that what got a turn is answered soon.
	costlyAtOnce = 8
	// One wallet asks for one thing after the other, and a family behind one address for a few at a time. Half of all, so that nobody
	// takes everything, and a proxy that carries all wallets still gets what a small machine's Zebra can do.
	costlyPerClient = 4
	// The protocol's: longer than any burst takes, shorter than wallets wait before they give up.
	costlyWait = 10 * time.Second
)

// Times of the smaller services.
const (
	// What a Ping may ask for at most; the wallets' tests use tenths of a second.
	maxPing = 10 * time.Second
	// How often a subscription looks at the tip, which costs a few hundred nanoseconds. New blocks take that long to be known anyway.
	tipInterval = 100 * time.Millisecond
)
