package attacks_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/attacks.md anew")

const document = "../../docs/attacks.md"

const preamble = `# Attacks

What somebody would try who wants out of the sandbox, past the rules, or at a key: %d attempts. Each is made by ` + "`make test`" + `
against the real programs, as root and as an ordinary user, and none may succeed (tests of decisions that do not depend on
the user run once). Where a try works without a sandbox, the
tests show that it does: what fails everywhere proves nothing.

Unless something else is said, the sandbox is ` + "`workspace-write`" + ` without a network. The column of codex says what its release 0.169.0
did, where that is known; **bold** means that the attempt succeeded there. Errors go by the kernel's names: EROFS is a file system that
is read-only, EPERM and EACCES are refusals, EXDEV is another file system, EBUSY is something that is mounted.

This file is written by ` + "`go test ./e2e/attacks -run TestDocument -update`" + ` from the table in ` + "`e2e/attacks`" + `; where a row is held by
other tests than those there, it names them. What the sandbox is made of stands in [its guide](guides/sandbox.md).
`

// The document is the table.
func TestDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	fmt.Fprintf(&b, preamble, len(table))
	at := 0
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| | attempt | has to be | codex 0.169.0 | gantry |\n| --- | --- | --- | --- | --- |\n", s.title)
		for _, r := range table[at:min(at+s.count, len(table))] {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.id, cell(r.attempt), cell(r.required), cell(r.theirs()), cell(r.outcome()))
		}
		at += s.count
	}
	if *update {
		if err := os.WriteFile(document, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now, err := os.ReadFile(document); err != nil || string(now) != b.String() {
		t.Errorf("docs/attacks.md is not the table (%v); run go test ./e2e/attacks -run TestDocument -update", err)
	}
}

func (r row) theirs() string {
	switch {
	case r.codex == "":
		return "not measured"
	case r.escaped:
		return "**" + r.codex + "**"
	default:
		return r.codex
	}
}

// errnos are the kernel's names of what its texts say.
var errnos = map[string]string{
	readOnly: "EROFS", refused: "EPERM", notPermitted: "EPERM", noFile: "ENOENT", "No such file": "ENOENT", "no such file": "ENOENT", busy: "EBUSY", "busy": "EBUSY", noAccess: "EACCES",
	across: "EXDEV", "File exists": "EEXIST", "Bad file descriptor": "EBADF", "no such process": "ESRCH", "function not implemented": "ENOSYS", "network is unreachable": "ENETUNREACH",
	"connection refused": "ECONNREFUSED", "Connection refused": "ECONNREFUSED", "No such device or address": "ENXIO", "not found": "not found", "none": "closed", "File name too long": "ENAMETOOLONG", "400 Bad Request": "400", "403": "403",
}

// outcome is what comes of a row here: what is written, or what its tries have to say.
func (r row) outcome() string {
	var said []string
	for _, a := range r.tries {
		if name := errnos[a.says]; name != "" && !a.works && !slices.Contains(said, name) {
			said = append(said, name)
		}
	}
	text := r.ours
	if text == "" && len(said) > 0 {
		text = strings.Join(said, ", ")
	}
	if text == "" {
		text = "denied"
	}
	for _, name := range r.tests {
		_, test, _ := strings.Cut(name, " ")
		text += ", `" + test + "`"
	}
	return text
}

// cell is a text in a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
