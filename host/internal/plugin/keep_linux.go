package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

// standsDir is a folder next to a process's sockets. It contains what other folders are covered with.
const standsDir = "stands"

// keeper returns a function that creates unreadable copies of program and of all that starts it, so that other processes can't
// read the memory of the provider that runs it. It returns nil if there is no folder for copies.
func (l *launcher) keeper(gantryLaunch, program, dir string, env []string) func() (*proc.Keep, error) {
	if l.cfg.CachePath == "" {
		return nil
	}
	// The second one, which is removed with this host, is used if the cache is not usable.
	stores := []binary.Copies{
		{Dir: filepath.Join(l.cfg.CachePath, "programs"), Records: l.cfg.records()},
		{Dir: filepath.Join(l.hostDir, "programs"), Records: l.cfg.records()},
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	return func() (keep *proc.Keep, _ error) {
		var opened []*binary.Copy
		defer func() {
			if keep == nil {
				for _, c := range opened {
					_ = c.Close()
				}
			}
		}()
		// If the program can't be analysed, executing it will fail with a better error.
		programs, _ := binary.Images(program, path)
		for _, p := range append(programs, gantryLaunch) {
			c, err := openCopy(stores, p)
			if err != nil || c == nil {
				return nil, err
			}
			opened = append(opened, c)
		}
		stands := filepath.Join(dir, standsDir)
		if err := os.Mkdir(stands, 0o700); err != nil {
			return nil, err
		}
		var all []proc.Unreadable
		for _, c := range opened {
			all = append(all, proc.Unreadable{File: c.File, Path: c.Path, Name: c.Name, Unchanged: c.Unchanged})
		}
		last := len(all) - 1
		return &proc.Keep{Launcher: all[last], Over: all[:last], Stands: stands}, nil
	}
}

// openCopy opens a copy in the first store that works. It returns nil if all are on file systems that permit no execution; the
// process then starts without copies, and a warning is logged.
func openCopy(stores []binary.Copies, path string) (*binary.Copy, error) {
	var problems []error
	for _, s := range stores {
		c, err := s.Open(path)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, binary.ErrNoCopies) {
			problems = append(problems, err)
		}
	}
	return nil, errors.Join(problems...)
}
