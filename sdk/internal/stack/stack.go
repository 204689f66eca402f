// Package stack prepares the stacks of new goroutines.
//
// It owns: the size that a call of a tool needs. It must not know: what the goroutines do.
//
// Start with [Grow].
package stack

// room is what Grow makes room for, in bytes: the runtime then gives the goroutine 16 KiB. More takes longer than it saves, as a larger stack
// comes from the heap and not from a cache.
const room = 12 << 10

// Grow enlarges the stack of a new goroutine at once, while there is next to nothing on it. Otherwise the runtime doubles it several times
// on the way into deep calls, such as those of gRPC, and copies frame by frame what it holds by then.
//
//go:noinline
func Grow() {
	var b [room]byte
	keep(&b)
}

// keep makes the compiler keep b on the stack.
//
//go:noinline
func keep(*[room]byte) {}
