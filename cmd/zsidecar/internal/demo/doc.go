// Package demo shows the program at work without a node: a simulated Zebra on one side, a wallet's gRPC connection on the other, and
// between them exactly what start runs.
//
// Every number that it prints is measured, and every claim is checked: it fails when an answer through Zebra and the same answer from
// the index differ in one byte, when the switch takes a block away from a running stream, or when a new block is not followed.
package demo
