// Package postgrestest gives tests a real PostgreSQL server of their own, which they may kill.
//
// It owns: starting and ending servers with a test, empty places in them. It must not know: what is stored there. Production
// code never imports it.
//
// Start with [Start] and [Place].
package postgrestest

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// AddressVar is the environment variable with the address of a server that runs already, as scripts/postgres sets it.
const AddressVar = "GANTRY_TEST_DSN"

// Server is a server that only a test knows.
type Server struct {
	Address string
	tb      testing.TB
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts a server, and ends it with the test. Where PostgreSQL is not installed the test is skipped, and fails in CI.
func Start(tb testing.TB) *Server {
	tb.Helper()
	cmd := exec.Command(script(tb), "serve")
	cmd.Stderr = tb.Output()
	in, err := cmd.StdinPipe() // its end is the server's: also when this process is killed
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // the test is over
	})
	s := &Server{tb: tb, in: in, out: bufio.NewReader(out)}
	line := s.line()
	if line == "missing" {
		const text = "PostgreSQL is not installed; `scripts/setup test` installs it, or the package postgresql does"
		if os.Getenv("CI") != "" || os.Getenv("GANTRY_TEST_POSTGRES") == "require" {
			tb.Fatal(text)
		}
		tb.Skip(text)
	}
	address, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		tb.Fatalf("the server says %q", line)
	}
	s.Address = address
	return s
}

// script finds scripts/postgres above the test.
func script(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		path := filepath.Join(d, "scripts", "postgres")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if d == filepath.Dir(d) {
			tb.Fatalf("there is no scripts/postgres above %s", dir)
		}
	}
}

func (s *Server) line() string {
	s.tb.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.tb.Fatalf("the server's script has ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *Server) tell(command string) {
	s.tb.Helper()
	if _, err := io.WriteString(s.in, command+"\n"); err != nil {
		s.tb.Fatal(err)
	}
	if line := s.line(); line != "done" {
		s.tb.Fatalf("%s: the server says %q", command, line)
	}
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() { s.tell("kill") }

// Stop ends the server at once, with a word to each connection.
func (s *Server) Stop() { s.tell("stop") }

// Restart starts the server again.
func (s *Server) Restart() { s.tell("start") }

// Place makes an empty schema on a server and returns its address.
func Place(tb testing.TB, address string) string {
	tb.Helper()
	name := "s" + strings.ToLower(rand.Text())
	Exec(tb, address, "CREATE SCHEMA "+name)
	return address + " search_path=" + name
}

// Exec runs a statement past the store.
func Exec(tb testing.TB, address, statement string, args ...any) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// Rerun runs the other tests of the calling package once more, in a process of their own, with [AddressVar] set to a new
// server. To do so by hand:
//
//	scripts/postgres run go test ./host/internal/store -run TestX
func Rerun(t *testing.T) {
	if os.Getenv(AddressVar) != "" {
		t.Skip("this is the second run")
	}
	t.Parallel()
	address := Start(t).Address
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.skip=^"+t.Name()+"$", "-test.short="+strconv.FormatBool(testing.Short()), "-test.count=1")
	cmd.Env = append(os.Environ(), AddressVar+"="+address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on PostgreSQL: %v\n%s", err, out)
	}
}
