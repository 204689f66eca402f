package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// freeProgram unmaps the pages of the program that this process has read: code and constants. They stay in the page cache, from which
// what runs next is mapped again. What differs from the file stays.
func freeProgram() {
	all, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range unchanged(all, exe) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // otherwise they stay mapped
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings of a file that can't be written to and contain nothing but the file, from the text of smaps.
func unchanged(smaps []byte, path string) (out []mapping) {
	var m mapping
	candidate := false
	s := bufio.NewScanner(bytes.NewReader(smaps))
	for s.Scan() {
		line := s.Text()
		var perms, offset, device, file string
		var inode uint64
		var next mapping
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %d", &next.from, &next.to, &perms, &offset, &device, &inode); n == 6 {
			m = next
			_, file, _ = strings.Cut(line, "/")
			candidate = "/"+file == path && perms[0] == 'r' && perms[1] == '-' && perms[3] == 'p'
			continue
		}
		var name string
		var size int64
		if n, _ := fmt.Sscanf(line, "%s %d", &name, &size); !candidate || n != 2 || size != 0 {
			continue
		}
		if name == "Anonymous:" { // pages that were written to are
			out = append(out, m)
		}
	}
	return out
}
