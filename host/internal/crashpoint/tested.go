//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Enabled tells whether there are points.
const Enabled = true

// What a test asks of a process. GANTRY_CRASH_AT is "POINT", "POINT DETAIL" or either with "#N" behind it: the N. time,
// 1 by default. GANTRY_CRASH_TRACE is a file that gets a line for each point passed.
const (
	atVariable    = "GANTRY_CRASH_AT"
	traceVariable = "GANTRY_CRASH_TRACE"
)

// passed is one for the whole process, which is what dies.
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

// At notes that a point is passed, and ends the process as kill -9 does where the test wants it.
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
	select {} // the signal is on its way, and nothing more happens
}
