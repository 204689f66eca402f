//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Enabled reports whether there are crash points.
const Enabled = true

// Variables that tests set. GANTRY_CRASH_AT is "POINT" or "POINT DETAIL", with an optional suffix "#N" for the Nth time, 1 by
// default. GANTRY_CRASH_TRACE is a file to which each point that is reached is appended as a line.
const (
	atVariable    = "GANTRY_CRASH_AT"
	traceVariable = "GANTRY_CRASH_TRACE"
)

// passed is the recorder of the process.
var passed = sync.OnceValue(newRecorder)

type recorder struct {
	mu    sync.Mutex
	times map[string]int
	trace *os.File
	at    string
	nth   int
}

func newRecorder() *recorder {
	r := &recorder{times: map[string]int{}, nth: 1}
	name, nth, counted := strings.Cut(os.Getenv(atVariable), "#")
	r.at = name
	var err error
	if counted {
		if r.nth, err = strconv.Atoi(nth); err != nil {
			panic(fmt.Sprintf("%s: %v", atVariable, err))
		}
	}
	if path := os.Getenv(traceVariable); path != "" {
		if r.trace, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			panic(fmt.Sprintf("%s: %v", traceVariable, err))
		}
	}
	return r
}

// At records that a point is reached, and kills the process like kill -9 if the test asks for it.
func At(p Point, detail string) {
	name := strings.TrimSpace(string(p) + " " + detail)
	r := passed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[name]++
	if r.trace != nil {
		if _, err := fmt.Fprintln(r.trace, name); err != nil {
			panic(fmt.Sprintf("%s: %v", traceVariable, err))
		}
	}
	if name != r.at || r.times[name] != r.nth {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("die at %s: %v", name, err))
	}
	select {} // the signal is pending; do nothing more
}
