package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

// standsDir is the folder, in that of a process's sockets, of what folders are covered with.
const standsDir = "stands"

// keeper returns what makes the files with which others are kept out of the process of this program. nil: there is no folder for them.
func (l *launcher) keeper(gantryLaunch, program, dir string, env []string) func() (*proc.Keep, error) {
	if l.cfg.CachePath == "" {
		return nil
	}
	// Where the cache can't be used the copies last as long as this host.
	stores := []binary.Copies{
		{Dir: filepath.Join(l.cfg.CachePath, "programs"), Records: l.cfg.records()},
		{Dir: filepath.Join(l.hostDir, "programs"), Records: l.cfg.records()},
	}
	searched := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			searched = v
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
		// What can't be found out the system says better when it executes the program.
		paths, _ := binary.Images(program, searched)
		for _, path := range append(paths, gantryLaunch) {
			c, err := copyIn(stores, path)
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

// copyIn opens a copy in the first place that has one. nil: nothing can be executed in any, so that the process starts without, and
// the log says what that means.
func copyIn(stores []binary.Copies, path string) (*binary.Copy, error) {
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
