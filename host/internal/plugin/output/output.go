// Package output reads what a plugin's process prints: the handshake line among whatever its runtime says first, and the
// log lines on standard error. Nothing that a plugin prints can stop, slow down or crash the reader.
//
// It owns: which lines before the handshake are tolerated, what is kept for error reports, how a line finds its log level,
// and every bound on all of that. It must not know: which handshake is acceptable, processes, gRPC, who reads the log.
//
// Start with [Stdout] and [Stderr].
package output

import (
	"bufio"
	"errors"
	"io"
)

// lines calls each for every line of r without its end, in pieces of at most maxLine bytes, until r ends. whole tells
// that the piece is a line on its own. An error of r is an end like any other: it is how a reader of a dead process's pipe
// is told to stop.
func lines(r io.Reader, maxLine int, each func(piece []byte, whole bool)) {
	br := bufio.NewReaderSize(r, maxLine)
	continued := false
	for {
		piece, more, err := br.ReadLine()
		if err != nil {
			return
		}
		each(piece, !more && !continued)
		continued = more
	}
}

// errEnd ends what go-plugin reads as a plugin's standard output.
var errEnd = errors.New("the plugin's standard output has ended")
