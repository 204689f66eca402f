package appserver

import (
	"archive/zip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/appserver/feedback"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// bench has the methods about commands, processes and files. Each connection has a workbench of its own, made for the first request.
type bench struct{ *Server }

// benching is the workbench of a connection, with the workspaces of the folders that the client works in.
type benching struct {
	mu     sync.Mutex
	bench  *workbench.Bench        // nil: it was not needed yet
	spaces map[string]*benchFolder // by folder, open
	uses   int                     // requests that are being handled
	closed bool
	list   atomic.Pointer[[]*workbench.Workspace] // those of the folders of now
}

// benchFolder is a workspace in use.
type benchFolder struct {
	*hub.Opened
	ws *workbench.Workspace
}

// folders returns the folders that the client works in: the server's, and those of the threads that it is subscribed to.
func (c *client) folders() []string {
	c.mu.Lock()
	var of []*feed
	for _, s := range c.subs {
		of = append(of, s.feed)
	}
	c.mu.Unlock()
	first := c.server.cfg.Workspace.Dir
	var dirs []string
	for _, f := range of {
		if dir := f.folder(); dir != first {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return append([]string{first}, slices.Compact(dirs)...)
}

// openBench returns the workbench of the connection for a request, which calls done at its end. Each folder has the configuration that a
// new thread in it gets, whatever a client has set for a thread.
func (c *client) openBench(ctx context.Context) (_ *workbench.Bench, done func(), err error) {
	dirs := c.folders()
	b := &c.benching
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, rpc.ErrClosed
	}
	if b.bench == nil {
		b.spaces = map[string]*benchFolder{}
		b.bench = workbench.New(workbench.Config{
			Notify: c.send, Workspaces: func() []*workbench.Workspace { return *b.list.Load() }, Logger: c.server.log.Named("workbench"),
		})
	}
	var list []*workbench.Workspace
	for i, dir := range dirs {
		f := b.spaces[dir]
		if f == nil {
			w := c.server.cfg.Workspace
			w.Dir = dir
			o, err := c.server.cfg.Hub.Open(ctx, w)
			switch {
			case err == nil:
				f = &benchFolder{o, o.Workbench()}
				b.spaces[dir] = f
			case i == 0 || ctx.Err() != nil:
				return nil, nil, err
			default: // as if the client had no thread there: the server's rules apply to it
				c.server.log.Warn("the folder of a thread is not part of its client's workspace", "dir", dir, "err", err)
				continue
			}
		}
		list = append(list, f.ws)
	}
	b.list.Store(&list)
	if b.uses == 0 && b.bench.Running() == 0 { // nothing uses what a folder of an earlier request has open
		for dir, f := range b.spaces {
			if !slices.Contains(list, f.ws) {
				f.Close()
				delete(b.spaces, dir)
			}
		}
	}
	b.uses++
	return b.bench, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.uses--
	}, nil
}

// closeBench ends the processes and watches of the connection.
func (c *client) closeBench() {
	b := &c.benching
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.bench != nil {
		b.bench.Close()
	}
	for _, f := range b.spaces {
		f.Close()
	}
}

// withBench returns a handler that calls f, which is a method of the workbench.
func withBench[P, R any](f func(b *workbench.Bench, ctx context.Context, p P) (R, error)) func(context.Context, *call, P) (R, error) {
	return func(ctx context.Context, c *call, p P) (out R, err error) {
		b, done, err := c.openBench(ctx)
		if err != nil {
			return out, err
		}
		defer done()
		return f(b, ctx, p)
	}
}

// emptyBench is withBench for methods whose results have no members.
func emptyBench[R, P any](f func(b *workbench.Bench, ctx context.Context, p P) error) func(context.Context, *call, P) (R, error) {
	return withBench(func(b *workbench.Bench, ctx context.Context, p P) (out R, err error) { return out, f(b, ctx, p) })
}

func (s bench) commandExec(ctx context.Context, c *call, p protocol.CommandExecParams) (out protocol.CommandExecResponse, err error) {
	b, done, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	return b.CommandExec(ctx, p, c.request.Release)
}

func (s bench) processSpawn(ctx context.Context, c *call, p protocol.ProcessSpawnParams) (out protocol.ProcessSpawnResponse, err error) {
	b, done, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	begin, err := b.ProcessSpawn(ctx, p)
	if err == nil {
		c.afterwards(begin)
	}
	return out, err
}

// sessionStart begins the session's notifications after the response.
func (s bench) sessionStart(ctx context.Context, c *call, p protocol.FuzzyFileSearchSessionStartParams) (out protocol.FuzzyFileSearchSessionStartResponse, err error) {
	b, done, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	begin, err := b.FuzzyFileSearchSessionStart(ctx, p)
	if err == nil {
		c.afterwards(begin)
	}
	return out, err
}

// maxExtraFiles is the number of files that a client can add to a report.
const maxExtraFiles = 32

// report is the file report.json of what feedback/save writes.
type report struct {
	Classification string                             `json:"classification"`
	Reason         *string                            `json:"reason"`
	ThreadID       *string                            `json:"threadId"`
	Tags           map[string]string                  `json:"tags,omitempty"`
	Time           time.Time                          `json:"time"`
	Version        string                             `json:"version"`
	System         string                             `json:"system"`
	Client         protocol.ClientInfo                `json:"client"`
	Diagnostics    protocol.ServerDiagnosticsResponse `json:"diagnostics"`
}

// feedbackSave writes a report for the user below the folder "feedback" of gantry's home: what the client says, and, if it asks for that, the
// log of the thread and files that it may read.
func (s bench) feedbackSave(ctx context.Context, c *call, p protocol.FeedbackSaveParams) (out protocol.FeedbackSaveResponse, err error) {
	if len(p.ExtraLogFiles) > maxExtraFiles {
		return out, rpc.Errorf(rpc.InvalidParams, "extraLogFiles: %d files, the maximum is %d", len(p.ExtraLogFiles), maxExtraFiles)
	}
	out.ThreadID = deref(p.ThreadID)
	var log *past
	if p.ThreadID != nil {
		h, err := s.pastOf(ctx, *p.ThreadID)
		if err != nil {
			return out, err
		}
		if p.IncludeLogs {
			log = &h
		}
	}
	r := report{
		Classification: p.Classification, Reason: p.Reason, ThreadID: p.ThreadID, Tags: p.Tags, Time: time.Now(), Version: s.cfg.Version,
		System: runtime.GOOS + "/" + runtime.GOARCH, Client: c.clientInfo(),
	}
	if r.Diagnostics, err = catalog(s).diagnostics(ctx, c, protocol.ServerDiagnosticsParams{}); err != nil {
		return out, err
	}
	b, done, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	out.SavedPath, err = feedback.Save(filepath.Join(s.cfg.Home, "feedback"), p.SavePath, func(z *zip.Writer) error {
		if err := addJSON(z, "report.json", r); err != nil {
			return err
		}
		if log != nil {
			if err := addLog(ctx, z, log); err != nil {
				return err
			}
		}
		for i, path := range p.ExtraLogFiles {
			read, err := b.FsReadFile(ctx, protocol.FsReadFileParams{Path: path})
			if err != nil {
				return err
			}
			data, err := base64.StdEncoding.DecodeString(read.DataBase64)
			if err != nil {
				return err
			}
			w, err := z.Create(fmt.Sprintf("files/%d-%s", i+1, filepath.Base(path)))
			if err != nil {
				return err
			}
			if _, err := w.Write(data); err != nil {
				return err
			}
		}
		return nil
	})
	return out, invalid(err)
}

func addJSON(z *zip.Writer, name string, v any) error {
	w, err := z.Create(name)
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// addLog adds the events of a thread as they are stored, one a line.
func addLog(ctx context.Context, z *zip.Writer, h *past) error {
	w, err := z.Create("thread.jsonl")
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	req := transcript.EventsRequest{After: new(uint64(0))}
	for {
		page, err := transcript.EventsPage(ctx, h, h.id, req)
		if err != nil {
			return err
		}
		for _, is := range page.Data {
			if err := e.Encode(is); err != nil {
				return err
			}
			req.After = &is.Seq
		}
		if page.NextCursor == nil {
			return nil
		}
	}
}
