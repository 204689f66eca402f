package tool

import "unicode/utf8"

// maxDelta is the maximum size of an output delta in bytes, as specified by the contract.
const maxDelta = 8192

// nextDelta returns the length of the next delta at the beginning of p: at most maxDelta bytes of complete UTF-8 characters, or
// one invalid byte. It returns 0 if p is empty, or if p is the beginning of a character whose remaining bytes may still arrive.
// last says that no more bytes will arrive.
func nextDelta(p []byte, last bool) (n int) {
	for n < len(p) && n < maxDelta {
		if p[n] < utf8.RuneSelf {
			n++
			continue
		}
		r, size := utf8.DecodeRune(p[n:])
		switch {
		case r == utf8.RuneError && size == 1 && !last && !utf8.FullRune(p[n:]):
			return n // an incomplete character: wait for its other bytes
		case r == utf8.RuneError && size == 1 && n == 0:
			return 1 // an invalid byte is a delta of its own
		case r == utf8.RuneError && size == 1, n+size > maxDelta:
			return n
		}
		n += size
	}
	return n
}
