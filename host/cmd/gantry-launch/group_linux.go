//go:build !family

package main

import "syscall"

// enter moves this thread, not the process, into control groups of version 1. Its children start in them, so that no part of the target or
// its sandbox ever runs outside of them. In version 2, a process can be created in a group.
func enter(groups []string) error {
	for _, g := range groups {
		if err := move(g + "/tasks"); err != nil {
			return err
		}
	}
	return nil
}

// leave moves this thread back to the parent groups.
func leave(groups []string) {
	for _, g := range groups {
		move(parent(g) + "/tasks") // if that fails it remains until this process ends
	}
}

func parent(path string) string {
	i := len(path) - 1
	for i > 0 && path[i] != '/' {
		i--
	}
	return path[:i]
}

// move writes this thread into a group's list of threads.
func move(list string) error {
	fd, err := syscall.Open(list, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte("0"))
	return err
}

// noForks prevents forks in the groups while they are killed, so that a tree can't fork faster than it is killed. Since Linux 5.14, it
// kills a group of version 2 as a whole.
func (w *watcher) noForks() {
	if w.cgroup != "" && !writeTo(w.cgroup+"/cgroup.kill", "1") {
		writeTo(w.cgroup+"/pids.max", "0")
	}
	for _, g := range w.groups {
		writeTo(g+"/pids.max", "0") // only one of them has this file
	}
}

// removeGroups removes the groups, which must be empty.
func (w *watcher) removeGroups() {
	if w.cgroup != "" {
		removeGroup(w.cgroup)
	}
	for _, g := range w.groups {
		removeGroup(g)
	}
}

// removeGroup removes a group and its descendants, which the target may have created.
func removeGroup(dir string) {
	if err := syscall.Rmdir(dir); err == nil || err == syscall.ENOTDIR || err == syscall.ENOENT {
		return
	}
	for _, name := range list(dir) {
		removeGroup(dir + "/" + name) // does nothing if it is a file
	}
	syscall.Rmdir(dir)
}
