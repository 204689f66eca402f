//go:build !family

package main

import "syscall"

// process is a line of the process table.
type process struct {
	pid, parent, group int
	state              byte
}

func (p process) dead() bool { return p.state == 'Z' || p.state == 'X' }

// descendants lists the tree below us, parents before their children. It reads the whole process table, some 10 µs for
// each process of the machine; /proc/PID/task/TID/children would be faster, but kernels are built without it, and its
// list may have gaps.
func descendants() []process {
	var all []process
	for _, name := range list("/proc") {
		if pid := number(name); pid > 0 {
			if p, ok := look(pid); ok {
				all = append(all, p)
			}
		}
	}
	var tree []process
	parents := []int{syscall.Getpid()}
	for len(parents) > 0 {
		parent := parents[0]
		parents = parents[1:]
		for _, p := range all {
			if p.parent == parent {
				tree = append(tree, p)
				parents = append(parents, p.pid)
			}
		}
	}
	return tree
}

// look reads one process. The name in its second field may contain anything, so what counts follows the last parenthesis.
func look(pid int) (process, bool) {
	var buf [512]byte
	n := readInto("/proc/"+decimal(pid)+"/stat", buf[:])
	b := buf[:n]
	end := len(b) - 1
	for end >= 0 && b[end] != ')' {
		end--
	}
	if end < 0 || end+2 >= len(b) {
		return process{}, false
	}
	p := process{pid: pid, state: b[end+2]}
	fields := b[end+3:]
	p.parent, fields = field(fields)
	p.group, _ = field(fields)
	return p, true
}

// field takes the next number from a line of numbers.
func field(b []byte) (int, []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	n := 0
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		n = n*10 + int(b[0]-'0')
		b = b[1:]
	}
	return n, b
}

// number reads a name that consists of digits; -1 for others.
func number(name string) int {
	n, rest := field([]byte(name))
	if name == "" || len(rest) > 0 {
		return -1
	}
	return n
}

// list returns the names in a folder; what can't be read is empty.
func list(folder string) []string {
	fd, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var names []string
	buf := make([]byte, 8192)
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}

// readInto reads the beginning of a file.
func readInto(path string, b []byte) int {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	for {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		return max(n, 0)
	}
}

func readAll(path string) []byte {
	b := make([]byte, 4096)
	return b[:readInto(path, b)]
}

func writeTo(path, text string) bool {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_, err = syscall.Write(fd, []byte(text))
	syscall.Close(fd)
	return err == nil
}
