package tool

import "unicode/utf8"

// maxDelta is the most bytes of one output delta; the contract says so.
const maxDelta = 8192

// nextDelta cuts the next delta off p: whole characters, at most maxDelta bytes of them, or a single byte that belongs to
// no character. n is 0 when nothing can be cut: p is empty, or it holds the beginning of a character whose rest may
// still come (never with last).
func nextDelta(p []byte, last bool) (n int) {
	for n < len(p) && n < maxDelta {
		if p[n] < utf8.RuneSelf {
			n++
			continue
		}
		r, size := utf8.DecodeRune(p[n:])
		switch {
		case r == utf8.RuneError && size == 1 && !last && !utf8.FullRune(p[n:]):
			return n // the beginning of a character: wait for the rest
		case r == utf8.RuneError && size == 1 && n == 0:
			return 1 // an invalid byte goes alone
		case r == utf8.RuneError && size == 1, n+size > maxDelta:
			return n
		}
		n += size
	}
	return n
}
