package threads

import (
	"fmt"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// executables is the output of `diff --executable --json`.
type executables struct {
	Files []event.ExecutableFile `json:"files"`
	More  int                    `json:"more,omitempty"` // files beyond the limit that were not kept
}

// printExecutable lists the files changed by a thread's commands that other programs execute, each as last recorded.
func (a *app) printExecutable(events iter.Seq2[event.Event, error], asJSON bool) error {
	out := executables{Files: []event.ExecutableFile{}}
	at := map[string]int{}
	for e, err := range events {
		if _, unreadable := e.Body.(event.Unknown); err != nil && !unreadable {
			return err
		}
		n, ok := e.Body.(event.Notice)
		if !ok {
			continue
		}
		out.More += n.More
		for _, f := range n.Executable {
			if i, known := at[f.Path]; known {
				out.Files[i] = f
				continue
			}
			at[f.Path] = len(out.Files)
			out.Files = append(out.Files, f)
		}
	}
	if asJSON {
		return a.PrintJSON(out)
	}
	for _, f := range out.Files {
		switch {
		case f.MovedTo != "":
			fmt.Fprintf(a.Stdout, "quarantined  %s → %s (%s)\n", render.Clean(f.Path), render.Clean(f.MovedTo), render.Clean(f.Why))
		case f.Disarmed:
			fmt.Fprintf(a.Stdout, "disarmed     %s (%s)\n", render.Clean(f.Path), render.Clean(f.Why))
		default:
			fmt.Fprintf(a.Stdout, "changed      %s\n", render.Clean(f.Path))
		}
	}
	if len(out.Files) == 0 {
		fmt.Fprintln(a.Stderr, "no sandboxed command has changed a file that other programs are known to execute")
	}
	if out.More > 0 {
		fmt.Fprintf(a.Stderr, "%s exceeded the limit\n", render.Plural(out.More, "file"))
	}
	return nil
}
