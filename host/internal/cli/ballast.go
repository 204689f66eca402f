package cli

import "runtime"

// ballastBytes are allocated but never written: they use no memory, but count as live data for the garbage collector.
const ballastBytes = 24 << 20

// ballast keeps the garbage collector from running frequently while the heap is small: a start with a short turn needs one
// collection instead of five, each of which would slow down all processors. It hardly changes the size of a large heap. The
// ballast is live until release is called.
func ballast() (release func()) {
	b := make([]byte, ballastBytes)
	return func() { runtime.KeepAlive(b) }
}
