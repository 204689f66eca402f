package rig

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Postgres is a temporary PostgreSQL server.
type Postgres struct {
	Address string
	t       testing.TB
	in      io.Writer
	out     *bufio.Reader
}

// NewPostgres starts a server that stops with the test. If PostgreSQL is not installed, the test is skipped, or fails in CI.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	cmd := exec.Command(filepath.Join(Bin(t), "..", "scripts", "postgres"), "serve")
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // the test is over
	})
	p := &Postgres{t: t, in: in, out: bufio.NewReader(out)}
	line := p.line()
	if line == "missing" {
		const text = "PostgreSQL is not installed; `scripts/setup test` installs it, or the package postgresql does"
		if os.Getenv("CI") != "" || os.Getenv("GANTRY_TEST_POSTGRES") == "require" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	address, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		t.Fatalf("the server says %q", line)
	}
	p.Address = address
	return p
}

func (p *Postgres) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the server's script has ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *Postgres) tell(command string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		p.t.Fatal(err)
	}
	if line := p.line(); line != "done" {
		p.t.Fatalf("%s: the server says %q", command, line)
	}
}

// Kill kills the server with SIGKILL.
func (p *Postgres) Kill() { p.t.Helper(); p.tell("kill") }

// Restart starts the server again.
func (p *Postgres) Restart() { p.t.Helper(); p.tell("start") }
