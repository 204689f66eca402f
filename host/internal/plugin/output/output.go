// Package output reads what a plugin's process prints: the handshake line and any output of its runtime before it, and the
// log lines on standard error. No output of a plugin can block, slow down or crash the reader.
//
// It owns: how much output before the handshake is tolerated, what is stored for error reports, how the level of a log line is
// determined, and the limits of all that. It must not know: which handshake is acceptable, processes, gRPC, who reads the log.
//
// Start with [Stdout] and [Stderr].
package output

import (
	"bufio"
	"errors"
	"io"
)

// lines calls each for every line of r, without its line feed and in pieces of at most maxLine bytes. whole reports whether
// the piece is a whole line. lines returns when r ends or fails; a read deadline ends the reading of a dead process's pipe.
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

// errEnd is the verdict if the output ends without a handshake line.
var errEnd = errors.New("the plugin's standard output has ended")
