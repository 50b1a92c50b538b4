package bench

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// Options are the parameters of Run. The zero value of each field but Targets means its default.
type Options struct {
	Targets   []TargetOptions
	Scenarios []string // names, in the order of the run; none: those of Scenarios that are run by default

	Rounds    int           // of every case, besides the one that warms up and is thrown away; 5
	Calls     int           // of a method in one round; 1,000
	RoundTime time.Duration // how long the clients of a round ask for more, from 1 ms to 1 h; 500 ms
	Clients   []Client      // the clients that read ranges; both
	Most      int           // clients at once; 128, and cases with more have so many
	Address   string        // that the methods of addresses are asked for; empty: one that is found in the chain

	// Readers is a command that runs ReadApart with the four arguments that are added to it, such as this program once more. None: clients
	// that read at full speed beside a probe are goroutines of this process, and the probe waits for them as well as for the server.
	Readers []string

	// OwnServers allows targets that are not on this machine: a benchmark is an attack on a server of somebody else.
	OwnServers bool

	Node      NodeOptions   // the Zebra behind the targets; without an URL it is not known
	Mempool   int           // transactions that a simulated node's mempool is filled up to for the scenario mempool; 0: as it is
	Logs      string        // folder for the output of servers that are started here; "": a temporary one, kept when something is wrong
	BuildTime time.Duration // how long a server that is started here may take to have a complete index; 1 h
	Patience  time.Duration // how long a target may take to serve what the node has; 30 s

	Command string // the command line, for the Result
	Tool    string // the version that measures, for the Result

	// Show is told what happens, from one goroutine at a time. Nil: nobody listens.
	Show func(Event)
}

// TargetOptions is one server that is measured.
type TargetOptions struct {
	Name    string
	Address string      // host:port
	TLS     *tls.Config // nil: without TLS
	PID     int         // of the server's process on this machine; 0: not known, and its CPU and memory are not measured

	Start *StartOptions // nil: the server runs already
}

// Event is what happened in a run. Every event has Doing; Done and Total count rounds.
type Event struct {
	Doing       string // scenario, case and target
	Done, Total int
	Finished    []Measurement // of the case that ended with this event, one per target
	Fault       *Fault        // that was found
	Note        *Fault        // that is no fault
}

// The defaults of Options.
const (
	DefaultRounds    = 5
	DefaultCalls     = 1000
	DefaultMost      = 128
	DefaultRoundTime = 500 * time.Millisecond
	DefaultBuildTime = time.Hour
	DefaultPatience  = 30 * time.Second
)

// The bounds of RoundTime: a probe is asked for several times in a round, and other times are multiples of it.
const (
	minRoundTime = time.Millisecond
	maxRoundTime = time.Hour
)

// InputError is a parameter that cannot be used.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

func inputError(format string, args ...any) error { return &InputError{fmt.Sprintf(format, args...)} }

// Check returns an InputError, or several that are joined, when the options cannot be used.
func (o Options) Check() error {
	if _, err := o.withDefaults(); err != nil {
		return err
	}
	_, err := chosen(o.Scenarios)
	return err
}

// withDefaults checks the options and fills in what is not given.
func (o Options) withDefaults() (Options, error) {
	o.Rounds = cmp.Or(o.Rounds, DefaultRounds)
	o.Calls = cmp.Or(o.Calls, DefaultCalls)
	o.Most = cmp.Or(o.Most, DefaultMost)
	o.RoundTime = cmp.Or(o.RoundTime, DefaultRoundTime)
	o.BuildTime = cmp.Or(o.BuildTime, DefaultBuildTime)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	if len(o.Clients) == 0 {
		o.Clients = []Client{Decoding, Counting}
	}
	if o.Show == nil {
		o.Show = func(Event) {}
	}
	switch {
	case len(o.Targets) == 0:
		return o, inputError("no target is given: there is nothing to measure")
	case o.Rounds < 0, o.Calls < 0, o.Most < 0:
		return o, inputError("%d rounds of %d calls, and %d clients: none may be negative", o.Rounds, o.Calls, o.Most)
	case o.RoundTime < minRoundTime, o.RoundTime > maxRoundTime:
		return o, inputError("a round of %v: it must be from %v to %v", o.RoundTime, minRoundTime, maxRoundTime)
	}
	if err := checkTransparent(o.Address); o.Address != "" && err != nil {
		return o, inputError("the address %q: %v", o.Address, err)
	}
	for i, c := range o.Clients {
		switch {
		case c != Decoding && c != Counting:
			return o, inputError("there is no client %q: %s and %s are those there are", c, Decoding, Counting)
		case slices.Contains(o.Clients[:i], c):
			return o, inputError("the client %q is named twice", c)
		}
	}
	var errs []error
	for i, t := range o.Targets {
		if slices.ContainsFunc(o.Targets[:i], func(u TargetOptions) bool { return u.Name == t.Name }) {
			errs = append(errs, inputError("two targets are called %q", t.Name))
		}
		errs = append(errs, t.check(o.OwnServers))
	}
	return o, errors.Join(errs...)
}

// checkTransparent refuses what is a transparent address of no network: servers are not to blame for refusing it.
func checkTransparent(address string) error {
	_, main := chain.ParseTransparent(chain.MainNetwork, address)
	_, test := chain.ParseTransparent(chain.TestNetwork, address)
	if main != nil && test != nil {
		return test
	}
	return nil
}

// check refuses names and addresses that cannot be, and servers of other people.
func (t TargetOptions) check(own bool) error {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '=' }
	if t.Name == "" || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, hidden) {
		return inputError("target %q: a name is needed, of characters that can be seen, without spaces and =", t.Name)
	}
	host, port, err := net.SplitHostPort(t.Address)
	if err != nil || host == "" || port == "" {
		return inputError("target %s: %q is no host:port", t.Name, t.Address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return inputError("target %s: the port %q must be a number from 1 to 65535", t.Name, port)
	}
	if t.PID != 0 {
		if _, err := readProcess(t.PID); err != nil {
			return inputError("target %s: %v: name the process of the server, on this machine", t.Name, err)
		}
	}
	if !own && !onThisMachine(host) {
		return inputError("target %s: %s is not on this machine, and a benchmark is an attack on a server of somebody else: "+
			"say --i-own-this-server if it is yours", t.Name, t.Address)
	}
	return nil
}

// onThisMachine tells whether a host, as an address names it, cannot be another machine.
func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
