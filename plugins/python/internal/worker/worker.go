// Package worker contains the Python program that executes the cells of a kernel.
//
// It owns: the program, how it is started, and its limits. It must not know: which Python runs it, who talks to it.
//
// Start with [Argv] and [Preamble].
package worker

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed worker.py
var source []byte

//go:embed gantry.py
var module string

// loader executes the program that arrives on standard input, because a sandboxed process can't see files of the plugin. It is short and
// always the same: it is what a person is asked about, and what approvals are remembered for.
const loader = "import os;f=os.fdopen(os.dup(0),'rb');exec(compile(f.read(int(f.readline())),'<worker>','exec'))"

// Argv returns the command line of a worker.
func Argv(python string) []string { return []string{python, "-I", "-u", "-X", "utf8", "-c", loader} }

// Preamble returns what the worker reads first: the program and its settings. memory limits the data of each of its processes in bytes,
// on Linux; 0: no limit.
func Preamble(memory int64) []byte {
	settings, err := json.Marshal(struct {
		Memory int64  `json:"memory"`
		Gantry string `json:"gantry"`
	}{memory, module})
	if err != nil { // impossible for a number and a string
		panic("worker: marshal settings: " + err.Error())
	}
	b := fmt.Appendf(nil, "%d\n", len(source))
	b = append(b, source...)
	return append(append(b, settings...), '\n')
}
