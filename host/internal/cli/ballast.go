package cli

import "runtime"

// ballastBytes are never written, so they take no memory; the collector takes them for live data.
const ballastBytes = 24 << 20

// ballast keeps the garbage collector from running all the time while hardly anything is alive: a start and a short turn get
// by with one collection instead of five, each of which would slow down both processors. What a large heap may grow to
// changes little. It holds until the function that it returns is called.
func ballast() (release func()) {
	b := make([]byte, ballastBytes)
	return func() { runtime.KeepAlive(b) }
}
