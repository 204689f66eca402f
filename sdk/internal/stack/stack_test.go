package stack

import (
	"testing"
	"unsafe"
)

// moved reports whether the stack of a new goroutine moves while it is used, after begin.
func moved(begin func()) bool {
	out := make(chan bool)
	go func() { // ends with its answer
		var here byte
		begin()
		before := uintptr(unsafe.Pointer(&here))
		use(8)
		out <- uintptr(unsafe.Pointer(&here)) != before
	}()
	return <-out
}

// use uses at least as many KiB of the stack.
//
//go:noinline
func use(kib int) byte {
	var room [1 << 10]byte
	room[kib] = byte(kib)
	if kib > 1 {
		room[0] = use(kib - 1)
	}
	return room[0] + room[kib]
}

func TestGrow(t *testing.T) {
	if moved(Grow) {
		t.Error("the stack was moved after Grow")
	}
}
