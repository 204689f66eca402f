//go:build !family

package main

import "syscall"

// enter moves this thread, not the process, into control groups of version 1: what it forks is born in them, so that nothing of
// the target, and nothing that makes its box, ever runs outside. Version 2 has a way to be born in a group.
func enter(groups []string) error {
	for _, g := range groups {
		if err := move(g + "/tasks"); err != nil {
			return err
		}
	}
	return nil
}

// leave moves this thread back to where it came from, which is the folder above.
func leave(groups []string) {
	for _, g := range groups {
		move(parent(g) + "/tasks") // where it can't, it ends with us
	}
}

func parent(path string) string {
	i := len(path) - 1
	for i > 0 && path[i] != '/' {
		i--
	}
	return path[:i]
}

// move writes this thread into a list of a group's.
func move(list string) error {
	fd, err := syscall.Open(list, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte("0"))
	return err
}

// noForks keeps the groups from growing while they are killed: who forks faster than we can look loses. One of version 2 is killed as
// a whole, but by kernels before 5.14.
func (w *watcher) noForks() {
	if w.cgroup != "" && !writeTo(w.cgroup+"/cgroup.kill", "1") {
		writeTo(w.cgroup+"/pids.max", "0")
	}
	for _, g := range w.groups {
		writeTo(g+"/pids.max", "0") // only one of them has it
	}
}

// removeGroups removes the groups once nobody is in them.
func (w *watcher) removeGroups() {
	if w.cgroup != "" {
		removeGroup(w.cgroup)
	}
	for _, g := range w.groups {
		removeGroup(g)
	}
}

// removeGroup removes a group, and those that the target has made in it.
func removeGroup(dir string) {
	if err := syscall.Rmdir(dir); err == nil || err == syscall.ENOTDIR || err == syscall.ENOENT {
		return
	}
	for _, name := range list(dir) {
		removeGroup(dir + "/" + name) // a file is not removed so
	}
	syscall.Rmdir(dir)
}
