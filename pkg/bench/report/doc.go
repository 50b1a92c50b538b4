// Package report draws what a run of the benchmark gave: as JSON that can be read again, CSV, Markdown, SVG plots, a page of HTML, lines
// for a terminal, and the comparison of two runs.
//
// Everything is drawn from a bench.Result alone and nothing is measured here, so that the report of an old run can be drawn again. Faults
// come first in every form: the figures of a target that answers wrongly mean nothing. What servers and command lines say of themselves is
// untrusted text: no control character of it reaches a terminal, and none of its markup a document.
//
// The package runs no goroutine.
package report
