package tools

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Values of sampling.
const (
	samplingOff   = "off"
	samplingAllow = "allow"
)

// roots reports whether the server is told the folders of threads. A program works in that folder already and its sandbox reads what
// commands may read, so it learns nothing. An address would learn the names of the user and the project, for files that it can't read.
func (s *Server) roots() bool {
	if s.Roots != nil {
		return *s.Roots
	}
	return s.URL == ""
}

// folders are those of the threads that have called a server.
type folders struct {
	mu       sync.Mutex
	byThread map[string]string
}

// enter notes the folder of a thread, before a call.
func (e *entry) enter(thread, folder string) {
	e.folders.mu.Lock()
	defer e.folders.mu.Unlock()
	if !e.block.roots() || folder == "" || e.folders.byThread[thread] == folder {
		return
	}
	if e.folders.byThread == nil {
		e.folders.byThread = map[string]string{}
	}
	e.folders.byThread[thread] = folder
	e.setRoots()
}

// leave forgets a thread.
func (e *entry) leave(thread string) {
	e.folders.mu.Lock()
	defer e.folders.mu.Unlock()
	if _, ok := e.folders.byThread[thread]; ok {
		delete(e.folders.byThread, thread)
		e.setRoots()
	}
}

// setRoots passes the folders on. folders.mu is held.
func (e *entry) setRoots() {
	var roots []*mcp.Root
	for _, f := range slices.Compact(slices.Sorted(maps.Values(e.folders.byThread))) {
		roots = append(roots, &mcp.Root{Name: filepath.Base(f), URI: fileURI(f)})
	}
	e.server.SetRoots(roots)
}

// fileURI returns the URI of an absolute path.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // it has a drive
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// endThread forgets a thread's folder.
func (p *mcpPlugin) endThread(_ context.Context, thread string) error {
	p.mu.Lock()
	entries := maps.Clone(p.mu.entries)
	p.mu.Unlock()
	for _, e := range entries {
		e.leave(thread)
	}
	return nil
}
