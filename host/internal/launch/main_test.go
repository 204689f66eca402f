//go:build linux

package launch_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// launcherEnv is the path of gantry-launch for the helper processes; helperEnv makes the test binary one of them.
const (
	launcherEnv = "GANTRY_TEST_LAUNCHER"
	helperEnv   = "GANTRY_TEST_HELPER"
)

// within is the time limit of operations that take milliseconds.
const within = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "host":
		helpHost()
	case "tree":
		helpTree()
	case "stubborn":
		helpStubborn()
	case "polite":
		helpPolite()
	case "counting":
		helpCounting()
	case "":
	default:
		os.Exit(99)
	}
	dir, err := os.MkdirTemp("", "gantry-launch-test")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "gantry-launch")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../../cmd/gantry-launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build gantry-launch: %v\n%s", err, out)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	os.Setenv(launcherEnv, path)
	// The Go runtime raises the soft limit on descriptors for this process. Processes that it starts must get the original limit,
	// so make the two differ.
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		files.Cur = min(files.Cur, files.Max-100)
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// helpHost is a host that starts a tree, prints the processes in it, and waits to be killed.
func helpHost() {
	l, err := launch.New(launch.Config{LauncherPath: os.Getenv(launcherEnv)})
	if err != nil {
		panic(err)
	}
	if err := l.Adopt(); err != nil {
		panic(err)
	}
	first, err := l.Spawn(context.Background(), command("true")) // whose launcher serves again
	if err != nil {
		panic(err)
	}
	<-first.Gone()
	p, err := l.Spawn(context.Background(), helper(os.Getenv("TARGET")))
	if err != nil {
		panic(err)
	}
	fmt.Println("target", p.PID())
	fmt.Println("launcher", p.LauncherPID())
	fmt.Println("spare", l.Spare())
	p.Attach(context.Background(), nil, func(o launch.Output) error {
		os.Stdout.Write(o.Data)
		return nil
	})
	select {}
}

// helpTree starts two stubborn processes, one of them a daemon whose parent has ended, and becomes stubborn itself.
func helpTree() {
	self := "/proc/self/exe"
	start := func(kind string, sys *syscall.SysProcAttr) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = []string{helperEnv + "=stubborn", "KIND=" + kind}
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = sys
		return cmd
	}
	if os.Getenv("KIND") == "middle" {
		// The intermediate process starts the daemon and exits, so that the daemon loses its parent.
		if err := start("daemon", &syscall.SysProcAttr{Setsid: true}).Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	middle := exec.Command(self)
	middle.Env = []string{helperEnv + "=tree", "KIND=middle"}
	middle.Stdout = os.Stdout
	if err := middle.Run(); err != nil {
		panic(err)
	}
	if err := start("child", nil).Start(); err != nil {
		panic(err)
	}
	os.Setenv("KIND", "top")
	helpStubborn()
}

// helpStubborn ignores all signals that can be ignored.
func helpStubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	fmt.Println(os.Getenv("KIND"), os.Getpid())
	select {}
}

// helpPolite ends on a signal, with a code that says which.
func helpPolite() {
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("polite", os.Getpid())
	os.Exit(int((<-asked).(syscall.Signal)))
}

// helpCounting starts another process on the first SIGTERM, waits until that has got SIGTERM as well, and returns in its exit code how
// often it got SIGTERM itself.
func helpCounting() {
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("counting", os.Getpid())
	<-asked
	newcomer := exec.Command("/proc/self/exe")
	newcomer.Env = []string{helperEnv + "=polite"}
	err := newcomer.Run()
	e, ok := err.(*exec.ExitError)
	if !ok {
		os.Exit(99)
	}
	// The signal may have come before it was handled.
	if status := e.Sys().(syscall.WaitStatus); status.ExitStatus() != int(syscall.SIGTERM) && status.Signal() != syscall.SIGTERM {
		os.Exit(98)
	}
	os.Exit(1 + len(asked))
}

// helper is this test binary as one of the helpers.
func helper(role string) launch.Spec {
	s := command("/proc/self/exe")
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s.Argv[0] = self
	s.Env = append(s.Env, helperEnv+"="+role, launcherEnv+"="+os.Getenv(launcherEnv))
	return s
}

// command is a process of the call "call" with full access.
func command(argv ...string) launch.Spec {
	return launch.Spec{
		Argv:  argv,
		Cwd:   "/",
		Env:   []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"},
		Grant: launch.Grant{Mode: launch.FullAccess},
		Owner: launch.Owner{Plugin: "shell", Thread: "thread", Call: "call"},
	}
}

func script(text string) launch.Spec { return command("/bin/sh", "-c", text) }

func newLauncher(t testing.TB, change ...func(*launch.Config)) *launch.Launcher {
	t.Helper()
	cfg := launch.Config{LauncherPath: os.Getenv(launcherEnv)}
	for _, f := range change {
		f(&cfg)
	}
	l, err := launch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := l.Count(); n != 0 {
			t.Errorf("%d processes are alive after Close", n)
		}
	})
	return l
}

func spawn(t testing.TB, l *launch.Launcher, s launch.Spec) *launch.Process {
	t.Helper()
	p, err := l.Spawn(t.Context(), s)
	if err != nil {
		t.Fatalf("spawn %q: %v", s.Argv, err)
	}
	return p
}

func wait(t testing.TB, p *launch.Process) launch.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return exit
}

// run starts a process, feeds it and returns what it wrote.
func run(t testing.TB, l *launch.Launcher, s launch.Spec, stdin ...string) (stdout, stderr string, exit launch.Exit) {
	t.Helper()
	p := spawn(t, l, s)
	in := make(chan launch.Input, len(stdin)+1)
	for _, text := range stdin {
		in <- launch.Input{Data: []byte(text)}
	}
	in <- launch.Input{Close: true}
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	exit, err := p.Attach(ctx, in, func(o launch.Output) error {
		if o.Stderr {
			errs.Write(o.Data)
		} else {
			out.Write(o.Data)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return out.String(), errs.String(), exit
}

// pluginClient serves the descriptors of one plugin, and is the plugin's client as well.
type pluginClient struct{ path string }

func newPluginClient(t testing.TB, l *launch.Launcher, plugin string) pluginClient {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { l.ServeDescriptors(plugin, ln) })
	t.Cleanup(func() {
		ln.Close()
		served.Wait()
		os.RemoveAll(dir)
	})
	return pluginClient{path}
}

// take redeems a token. It returns no files if the host refuses.
func (d pluginClient) take(t testing.TB, token string) []*os.File {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte(token + "\n")); err != nil {
		t.Fatal(err)
	}
	data, oob := make([]byte, 8), make([]byte, 256)
	n, oobn, _, _, err := conn.ReadMsgUnix(data, oob)
	if err != nil || n == 0 {
		return nil
	}
	if n != 1 || data[0] != 0 {
		t.Fatalf("the message is %v, want one zero byte", data[:n])
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		t.Fatalf("%d control messages, %v", len(msgs), err)
	}
	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "taken")
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	return files
}

// pids reads lines "name pid" until it has all names.
func pids(t testing.TB, r io.Reader, names ...string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	lines := bufio.NewScanner(r)
	for len(found) < len(names) && lines.Scan() {
		name, number, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if pid, err := strconv.Atoi(number); err == nil && slices.Contains(names, name) {
			found[name] = pid
		}
	}
	if len(found) < len(names) {
		t.Fatalf("got %v of %v: %v", found, names, lines.Err())
	}
	return found
}

// watched is a handle of a process that was alive when it was created.
type watched struct {
	name string
	pid  int
	fd   int
}

func watchPID(t testing.TB, name string, pid int) watched {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("%s (%d) is not alive: %v", name, pid, err)
	}
	t.Cleanup(func() {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // where the test has failed
		unix.Close(fd)
	})
	return watched{name, pid, fd}
}

// ends waits for the process to end, and logs how long that took.
func (w watched) ends(t testing.TB, limit time.Duration) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("%s (%d) is alive after %v", w.name, w.pid, limit)
		}
		return
	}
}

func (w watched) alive() bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, 0)
	return n == 0
}

// background attaches to a process and returns a reader of its output.
func background(t testing.TB, p *launch.Process) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		_, err := p.Attach(ctx, nil, func(o launch.Output) error {
			_, err := w.Write(o.Data)
			return err
		})
		w.CloseWithError(err)
	})
	t.Cleanup(func() {
		cancel()
		r.Close()
		work.Wait()
	})
	return r
}

func openFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
