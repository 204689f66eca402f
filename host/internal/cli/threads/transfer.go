package threads

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// An export consists of a thread's events, one per line, and a last line with their number. Without it, a file truncated between
// two lines would look like a shorter thread.

// exportEnded is the kind of the last line.
const exportEnded = "export.ended"

// lastLine is the last line of an export, in the format of the other lines.
type lastLine struct {
	Thread event.ThreadID `json:"thread"`
	Time   time.Time      `json:"time"`
	Kind   string         `json:"kind"`
	Body   struct {
		Events int `json:"events"`
	} `json:"body"`
}

// export writes a thread and the last line.
func export(ctx context.Context, s *store.Store, id event.ThreadID, w io.Writer) error {
	lines := &lineCounter{out: w}
	if err := s.Export(ctx, id, lines); err != nil {
		return err
	}
	last := lastLine{Thread: id, Time: time.Now().UTC(), Kind: exportEnded}
	last.Body.Events = lines.n
	if err := json.NewEncoder(w).Encode(last); err != nil {
		return fmt.Errorf("export thread %s: %w", id, err)
	}
	return nil
}

type lineCounter struct {
	out io.Writer
	n   int
}

// Write passes p on and counts its lines.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.n += bytes.Count(p, []byte("\n"))
	return c.out.Write(p)
}

// maxExportLine limits a line. The store has a lower limit and a better message for it.
const maxExportLine = 128 << 20

// importer reads the events of an export. At the end it fails if the last line is missing or does not match.
type importer struct {
	lines   *bufio.Scanner
	partial bool // accept an incomplete export
	cut     bool // with partial: the last line was incomplete and skipped

	n      int    // number of the last line read
	held   []byte // that line; whether it is the last one is not known yet
	events int
	rest   []byte // of the line being returned
	err    error
}

func newImporter(r io.Reader, partial bool) *importer {
	i := &importer{lines: bufio.NewScanner(r), partial: partial}
	i.lines.Buffer(make([]byte, 0, 64<<10), maxExportLine)
	return i
}

// Read returns the events.
func (i *importer) Read(p []byte) (int, error) {
	for len(i.rest) == 0 && i.err == nil {
		i.err = i.next()
	}
	n := copy(p, i.rest)
	if i.rest = i.rest[n:]; n == 0 && len(p) > 0 {
		return 0, i.err
	}
	return n, nil
}

// next moves the held line to rest and reads the next one.
func (i *importer) next() error {
	if !i.lines.Scan() {
		return i.end()
	}
	i.n++
	line := i.lines.Bytes()
	if len(bytes.TrimSpace(line)) == 0 { // passed on, so that the store's line numbers match
		if i.held == nil {
			i.rest = []byte("\n")
		} else {
			i.held = append(i.held, '\n')
		}
		return nil
	}
	if isLast(i.held) {
		return hint.With(fmt.Errorf("line %d: data after the end of the export", i.n), "import one thread at a time")
	}
	if i.held != nil {
		i.events++
		i.rest = append(i.held, '\n')
	}
	i.held = bytes.Clone(line)
	return nil
}

func (i *importer) end() error {
	switch err := i.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d is longer than any event", i.n+1)
	case err != nil:
		return err
	case i.held == nil:
		return io.EOF // an empty export, which the store reports
	case isLast(i.held):
		var l lastLine
		if err := json.Unmarshal(i.held, &l); err != nil {
			return fmt.Errorf("line %d: %w", i.n, err)
		}
		if l.Body.Events != i.events {
			return hint.With(fmt.Errorf("line %d: the export should have %d events, but has %d", i.n, l.Body.Events, i.events), "export the thread again")
		}
		return io.EOF
	case i.events == 0 && !json.Valid(i.held):
		return fmt.Errorf("line %d is not an event of a thread, or is truncated", i.n)
	case !i.partial:
		return hint.With(fmt.Errorf("the export is truncated in or after line %d: its last line is missing; nothing was imported", i.n),
			"export the thread again, or import the available part with --partial")
	}
	if json.Valid(i.held) {
		i.rest = append(i.held, '\n')
	} else {
		i.cut = true
	}
	return io.EOF
}

// isLast reports whether a line ends an export. It avoids decoding long lines.
func isLast(line []byte) bool {
	var l struct {
		Kind string `json:"kind"`
	}
	return bytes.Contains(line[:min(len(line), 300)], []byte(exportEnded)) && json.Unmarshal(line, &l) == nil && l.Kind == exportEnded
}

func (a *app) threadsExport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export THREAD", Short: "Export a thread as JSON lines", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				if err != nil {
					return err
				}
				if out == "" || out == "-" {
					return export(ctx, s, info.ID, a.Stdout)
				}
				f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if errors.Is(err, fs.ErrExist) {
					return hint.With(fmt.Errorf("export: %s already exists; nothing was changed", out), "specify another file")
				}
				if err != nil {
					return fmt.Errorf("export: %w", err)
				}
				if err := errors.Join(export(ctx, s, info.ID, f), f.Close()); err != nil {
					return errors.Join(err, os.Remove(out)) // leave no partial file
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to a new `FILE`; -: standard output")
	return cmd
}

func (a *app) threadsImport() *cobra.Command {
	var partial bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Import an exported thread", Args: console.Takes(1, 1, "FILE"),
		Long: "import stores the thread of an export, completely or not at all. With -, it reads standard input. Use --partial for an\n" +
			"export that is truncated, or that another version wrote without a last line; it is then imported up to its last complete\n" +
			"event.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f := a.Stdin
			if args[0] != "-" {
				var err error
				if f, err = os.Open(args[0]); err != nil {
					return hint.With(fmt.Errorf("import: %w", console.Missing(err, args[0])), "specify a file written by `gantry threads export`")
				}
				defer f.Close()
				if st, err := f.Stat(); err == nil && st.IsDir() {
					return hint.With(fmt.Errorf("import: %s is a folder", args[0]), "specify a file written by `gantry threads export`")
				}
			} else if f == nil || a.Terminal() {
				return console.UsageError{Text: "no data on standard input", Next: "pipe an export in, or specify a file"}
			}
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				in := newImporter(f, partial)
				info, err := s.Import(ctx, in)
				if err != nil {
					if in.err != nil && !errors.Is(in.err, io.EOF) {
						err = fmt.Errorf("import: %w", in.err) // without the store's own line number
					}
					if _, next := hint.Split(err); next == "" {
						err = hint.With(err, "specify a file written by `gantry threads export`")
					}
					return err
				}
				if in.cut {
					fmt.Fprintf(a.Stderr, "Note: line %d is incomplete and was skipped\n", in.n)
				}
				fmt.Fprintln(a.Stdout, info.ID)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&partial, "partial", false, "accept an export whose end is missing")
	return cmd
}
