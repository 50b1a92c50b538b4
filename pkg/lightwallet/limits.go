package lightwallet

import "time"

// Sizes of what clients send.
const (
	// A transaction is at most 2,000,000 bytes (consensus); the protocol lets SendTransaction's message have 4 MiB, so that an
	// oversized one gets the method's own answer.
	maxSendTransactionRequest = 4 << 20
	// The largest other request is a list of 20,000 mempool suffixes of 32 bytes, about 700 kB.
	maxRequest = 1 << 20
	// Wallets send a handful of short headers; grpc-go would take 16 MiB of them from anybody.
	maxHeaderBytes = 16 << 10
)

// What one connection may hold.
const (
	// A stalled stream costs up to four runs of 64 KiB, so this is what bounds a connection to tens of MiB, yet leaves room for a proxy
	// that carries many wallets over one connection. Clients that know HTTP/2 wait or open another connection when they reach it.
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
	// With an older answer at hand it is better to give that than to wait longer for a node that hangs.
	nodeInfoPatience = 3 * time.Second
	// Told to clients that met a full queue. A queue turns over in about this time.
	retryDelay = 5 * time.Second
)
