package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// StartOptions say how the benchmark starts the server of a target itself, stops it and starts it again.
type StartOptions struct {
	// Command is a line of the shell that becomes the server, so that it must be one program. {dir} in it stands for the directory of the
	// index: then every build has a new one below Dir, and there may be several.
	Command string
	// Dir is where the server keeps its index: it is measured, and has to be empty or absent before a build. Nothing in it is deleted.
	Dir string
	// Complete is a URL that tells whether the index is complete, for a server that answers before it is: it says 200 then, and, when its
	// answer is JSON as that of zsidecar's /healthz, names the height in index.height and the state "complete" in index.state.
	// "" means that the index is complete when the server names the tip of the node.
	Complete string
}

// closePatience is how long servers may take to end when everything is measured.
const closePatience = 10 * time.Second

// dirMark stands for the directory of the index in a command.
const dirMark = "{dir}"

// shellSpecial are the characters that mean something to a shell.
const shellSpecial = " \t\n\\\"'`$&|;<>()*?[]{}#~!"

// server is the process of a target that the benchmark starts.
type server struct {
	start  StartOptions
	target TargetOptions
	child  *child // nil: it does not run
	dir    string // of its index
	builds int    // directories used for builds
}

// newServers checks how servers are to be started.
func newServers(o Options) (map[string]*server, error) {
	servers := make(map[string]*server)
	unquoted := strings.NewReplacer("'"+dirMark+"'", "", `"`+dirMark+`"`, "")
	for _, t := range o.Targets {
		if t.Start == nil {
			continue
		}
		if err := canStart(); err != nil {
			return nil, err
		}
		switch {
		case strings.TrimSpace(t.Start.Command) == "":
			return nil, inputError("target %s: the command that starts it is empty", t.Name)
		case t.PID != 0:
			return nil, inputError("target %s: it is started here, so that its process id is not known before", t.Name)
		case filepath.Base(t.Name) != t.Name:
			return nil, inputError("target %s: the output of what is started is kept in a file of that name, which must have no / in it", t.Name)
		case strings.Contains(unquoted.Replace(t.Start.Command), dirMark) && strings.ContainsAny(t.Start.Dir, shellSpecial):
			return nil, inputError("target %s: the directory %q has a character that a shell does not take as it is: write '%s' in the command, "+
				"with the quotes", t.Name, t.Start.Dir, dirMark)
		case strings.Contains(t.Start.Command, dirMark) && t.Start.Dir == "":
			return nil, inputError("target %s: its command has %s in it, and no directory is named", t.Name, dirMark)
		case t.Start.Complete == "" && o.Node.URL == "":
			return nil, inputError("target %s: how is its index known to be complete? Name the node (--zebra), whose tip it has then, "+
				"or a URL that says so (--complete)", t.Name)
		}
		if err := checkComplete(t.Start.Complete, o.OwnServers); err != nil {
			return nil, inputError("target %s: %v", t.Name, err)
		}
		if slices.Contains(o.Scenarios, "index") && t.Start.Dir != "" {
			if err := checkEmpty(t.Start.Dir); err != nil {
				return nil, inputError("target %s: %v", t.Name, err)
			}
		}
		servers[t.Name] = &server{start: *t.Start, target: t, dir: t.Start.Dir}
	}
	return servers, nil
}

// manyDirs tells whether every build of the server can have a directory of its own.
func (s *server) manyDirs() bool { return strings.Contains(s.start.Command, dirMark) }

// newDir makes an empty directory the server's for the build to come.
func (s *server) newDir() error {
	switch {
	case s.start.Dir == "":
		return inputError("target %s: a build is measured in a directory that has to be named (--dir)", s.target.Name)
	case !s.manyDirs() && s.builds > 0:
		return inputError("target %s: one build is all that can be measured, unless %s stands for the directory in its command", s.target.Name, dirMark)
	case s.builds == 0:
		if err := checkEmpty(s.start.Dir); err != nil {
			return fmt.Errorf("target %s: %w", s.target.Name, err)
		}
	}
	s.builds++
	if s.manyDirs() {
		s.dir = filepath.Join(s.start.Dir, fmt.Sprintf("build%d", s.builds))
	}
	return os.MkdirAll(s.dir, 0o700)
}

// run starts the process. Somebody else at its address would be measured in its place, and is an error.
func (s *server) run(logs string) error {
	if conn, err := net.DialTimeout("tcp", s.target.Address, time.Second); err == nil {
		conn.Close()
		return fmt.Errorf("start %s: somebody listens at %s already", s.target.Name, s.target.Address)
	}
	child, err := startChild(s.target.Name, strings.ReplaceAll(s.start.Command, dirMark, s.dir), filepath.Join(logs, s.target.Name+".log"))
	s.child = child
	return err
}

// stop ends the process; see child.stop.
func (s *server) stop(ctx context.Context) (took time.Duration, written uint64, err error) {
	if s.child == nil {
		return 0, 0, nil
	}
	took, written, err = s.child.stop(ctx)
	s.child = nil
	return took, written, err
}

// kill ends the process at once.
func (s *server) kill() {
	if s.child != nil {
		s.child.kill()
		s.child = nil
	}
}

// open prepares what scenarios need besides the targets.
func (r *run) open(list []scenario) (err error) {
	if r.options.Node.URL != "" {
		if r.node, err = newNode(r.options.Node, r.options.OwnServers); err != nil {
			return err
		}
	} else if i := slices.IndexFunc(list, scenario.needsNode); i >= 0 {
		return inputError("the scenario %s asks the node behind the targets: name it with --zebra", list[i].name)
	}
	if r.servers, err = newServers(r.options); err != nil {
		return err
	}
	if len(r.servers) == 0 {
		if i := slices.IndexFunc(list, scenario.starts); i >= 0 {
			return inputError("the scenario %s is about servers that are started here: say how with --start", list[i].name)
		}
		return nil
	}
	if r.logs = r.options.Logs; r.logs == "" {
		r.logs, err = os.MkdirTemp("", "zsidecar-bench-")
		return err
	}
	return os.MkdirAll(r.logs, 0o700)
}

// closeServers ends every server that was started here.
func (r *run) closeServers() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, s := range r.servers {
		_, _, _ = s.stop(ctx) // whatever it says, it is gone then
	}
	if r.node != nil {
		r.node.close()
	}
	if len(r.servers) > 0 && r.options.Logs == "" && len(r.result.Faults) == 0 {
		_ = os.RemoveAll(r.logs) // made by open, and no fault refers to it
	}
}

// startScenarios runs the scenarios that start servers themselves, and then starts every server for the others, which it returns. A target
// whose server does not start is left out of them.
func (r *run) startScenarios(ctx context.Context, list []scenario) (others []scenario, err error) {
	others = slices.DeleteFunc(slices.Clone(list), func(s scenario) bool { return s.starts() })
	list = slices.DeleteFunc(slices.Clone(list), func(s scenario) bool { return !s.starts() })
	for _, o := range r.options.Targets {
		if o.Start != nil {
			r.targets = append(r.targets, &target{options: o, about: Target{Name: o.Name, Address: o.Address, TLS: o.TLS != nil}})
		} else if len(list) > 0 {
			r.note(Fault{Scenario: list[0].name, Target: o.Name, Text: "not measured: it is not started here (--start)"})
		}
	}
	err = r.scenarios(ctx, list)
	for _, t := range r.targets {
		r.result.Targets = append(r.result.Targets, t.about)
	}
	r.targets = nil
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return others, r.startServers(ctx)
}

// startServers starts every server and waits until its index is complete.
func (r *run) startServers(ctx context.Context) error {
	var started []TargetOptions
	for _, o := range r.options.Targets {
		if o.Start != nil {
			r.options.Show(Event{Doing: "start " + o.Name, Done: r.done, Total: r.total})
			s := r.servers[o.Name]
			if err := r.startServer(ctx, s); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				s.kill()
				r.fault(Fault{Scenario: "start", Target: o.Name, Text: err.Error()})
				continue
			}
			o.PID = s.child.pid()
		}
		started = append(started, o)
	}
	r.options.Targets = started
	return nil
}

func (r *run) startServer(ctx context.Context, s *server) error {
	if err := s.run(r.logs); err != nil {
		return err
	}
	_, err := r.awaitComplete(ctx, s, func(time.Duration, uint32) {})
	return err
}
