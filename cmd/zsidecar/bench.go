package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/pkg/bench"
	"github.com/zsidecar/zsidecar/pkg/bench/report"
)

func (p *program) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure servers of the wallet protocol side by side, and serve large chains to indexers",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return usage(cmd, errors.New("no command given: run, compare, report or chain"))
		},
	}
	cmd.AddCommand(p.benchRunCommand(), p.benchCompareCommand(), p.benchReportCommand(), p.benchChainCommand(), p.benchReadersCommand())
	return cmd
}

const benchRunExample = `  # everything, at one server
  zsidecar bench run --target zsidecar=127.0.0.1:9067

  # two scenarios at two servers side by side, with what their processes use
  zsidecar bench run --target ours=127.0.0.1:9067 --pid ours=4711 --target theirs=127.0.0.1:8137 --pid theirs=4712 \
    --scenario latency,ranges`

// benchRunFlags are those of bench run.
type benchRunFlags struct {
	targets, pids, scenarios []string
	clients                  []string
	tlsCA                    string
	rounds, calls, most      int
	address                  string
	roundTime                time.Duration
	own                      bool
	files                    report.Files
	start                    benchStartFlags
}

func (p *program) benchRunCommand() *cobra.Command {
	var f benchRunFlags
	cmd := &cobra.Command{
		Use:     "run --target NAME=ADDR...",
		Short:   "Measure servers, and check their answers meanwhile",
		Long:    benchRunHelp(),
		Example: benchRunExample,
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.targets, "target", nil, "a server that is measured, as `NAME=HOST:PORT`, with tls:// before HOST for TLS; several times for several")
	flags.StringArrayVar(&f.pids, "pid", nil, "the process of a target on this machine, as `NAME=PID`: its CPU and memory are measured")
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "`NAMES` of scenarios, with commas between them; those marked * when not given")
	flags.StringSliceVar(&f.clients, "client", nil, "clients that read ranges: decoding, counting; both when not given")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "PEM `FILE` of certificates that tls:// targets may be signed with; the system's when not given")
	flags.IntVar(&f.rounds, "rounds", bench.DefaultRounds, "rounds of every case")
	flags.IntVar(&f.calls, "calls", bench.DefaultCalls, "calls of each method in a round of latency")
	flags.IntVar(&f.most, "most-clients", bench.DefaultMost, "clients at once: cases with more have so many")
	flags.StringVar(&f.address, "address", "", "transparent `ADDRESS` that the methods of addresses are asked for; one that is found in the chain when not given")
	flags.DurationVar(&f.roundTime, "round-time", bench.DefaultRoundTime, "how long a round asks for more")
	flags.BoolVar(&f.own, "i-own-this-server", false, "allow targets that are not on this machine")
	flags.StringVar(&f.files.JSON, "json", "", "write the result to this `FILE`, for bench compare")
	reportFlags(flags, &f.files)
	f.start.add(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := f.options()
		if err != nil {
			return usage(cmd, err)
		}
		if err := f.files.Check(); err != nil { // rather than at the end of a long run
			return usage(cmd, err)
		}
		return p.benchRun(cmd, o, f.files)
	}
	return cmd
}

func benchRunHelp() string {
	var b strings.Builder
	b.WriteString("Ask every target the same questions in turns, round by round, so that what disturbs the machine disturbs all of them alike, and\n" +
		"check what they answer. A wrong answer is a fault, however fast it came.\n\nScenarios:\n")
	for _, s := range bench.Scenarios() {
		mark := " "
		if s.Default {
			mark = "*"
		}
		fmt.Fprintf(&b, "  %s %-12s %s\n", mark, s.Name, s.Help)
	}
	b.WriteString("\nInterrupted, it ends with what was measured until then. Files are written when it is over; those of an earlier run stay until\n" +
		"then. It ends with 0, with 1 when a target gave a wrong answer or none, or with 2 when the flags are wrong.")
	return b.String()
}

// options checks the flags and turns them into those of bench.
func (f benchRunFlags) options() (o bench.Options, err error) {
	o = bench.Options{Scenarios: f.scenarios, Rounds: f.rounds, Calls: f.calls, Most: f.most, Address: f.address, RoundTime: f.roundTime, OwnServers: f.own,
		Tool: version().String(), Command: shellLine(os.Args)}
	for _, c := range f.clients {
		o.Clients = append(o.Clients, bench.Client(c))
	}
	if f.rounds < 1 || f.calls < 1 || f.most < 1 || f.roundTime <= 0 {
		return o, errors.New("flags --rounds, --calls, --most-clients and --round-time must be above 0")
	}
	roots, err := certificates(f.tlsCA)
	if err != nil {
		return o, err
	}
	pids, err := f.processes()
	if err != nil {
		return o, err
	}
	for _, s := range f.targets {
		name, addr, ok := strings.Cut(s, "=")
		if !ok {
			return o, fmt.Errorf("flag --target = %q: must be NAME=HOST:PORT, such as ours=127.0.0.1:9067", s)
		}
		t := bench.TargetOptions{Name: name, Address: addr, PID: pids[name]}
		if host, ok := strings.CutPrefix(addr, "tls://"); ok {
			t.Address, t.TLS = host, &tls.Config{RootCAs: roots}
		}
		delete(pids, name)
		o.Targets = append(o.Targets, t)
	}
	for name := range pids {
		return o, fmt.Errorf("flag --pid names %q, and no --target is called so", name)
	}
	if err := f.start.apply(&o); err != nil {
		return o, err
	}
	return o, o.Check()
}

// processes reads the flags --pid.
func (f benchRunFlags) processes() (map[string]int, error) {
	pids := map[string]int{}
	for _, s := range f.pids {
		name, number, _ := strings.Cut(s, "=")
		pid, err := strconv.Atoi(number)
		switch {
		case err != nil || pid < 1:
			return nil, fmt.Errorf("flag --pid = %q: must be NAME=PID, such as ours=4711", s)
		case pids[name] != 0:
			return nil, fmt.Errorf("flag --pid names %q twice", name)
		}
		pids[name] = pid
	}
	return pids, nil
}

// certificates reads a file of certificates; nil stands for the system's.
func certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("flag --tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("flag --tls-ca: %s holds no certificate in PEM", file)
	}
	return pool, nil
}

// shellLine words arguments so that a shell reads the same ones again.
func shellLine(args []string) string {
	const safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%_+=:,./-"
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if arg == "" || strings.Trim(arg, safe) != "" {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
