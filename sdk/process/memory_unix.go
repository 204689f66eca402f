//go:build unix

package process

import (
	"fmt"
	"os"
	"syscall"
)

// mapMemory maps a whole file as shared memory.
func mapMemory(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory of the session: %w", err)
	}
	return b, nil
}

func unmapMemory(b []byte) error {
	if b == nil {
		return nil
	}
	return syscall.Munmap(b)
}
