// Package jsonrpc is the JSON-RPC server: the methods of Zaino and the others of Zebra's that only read, in Zebra's shapes.
//
// One table, methods, says which methods there are and who answers each: the chain's position comes from the same Source as the
// wallets' answers, so that both name one tip; what no Zebra has is made here or refused; the rest is relayed, and Zebra's answer
// passes as it is, to the byte. Whatever is not in the table does not exist (-32601), and so cannot be asked of Zebra: its control and
// mining methods above all.
//
// Requests are put into words anew before they are relayed, from a method's name in the table and parameters that are valid JSON.
// The calls of a batch run one after the other, as in Zebra. Long answers are passed on while they are read.
//
// Goroutines: those of net/http, one for each connection, from Serve to Stop.
//
// Invariants:
//
//	J1  No reply is well-formed unless it is complete: an answer that breaks off closes the connection.
//	J2  A request that Zebra cannot be asked about is an error, never an empty result.
//	J3  What clients may hold is bounded: connections, requests, their bodies, the time to send one and to take the reply.
package jsonrpc
