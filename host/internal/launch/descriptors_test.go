//go:build linux

package launch_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func TestHandOver(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	s := script(`cat; echo end; echo err 1>&2`)
	s.Stdin = true
	p := spawn(t, l, s)
	if want := []string{"stdin", "stdout", "stderr"}; !slices.Equal(p.Descriptors(), want) {
		t.Fatalf("descriptors %v, want %v", p.Descriptors(), want)
	}
	files := d.take(t, p.Token())
	if len(files) != 3 {
		t.Fatalf("%d files, want 3", len(files))
	}
	if _, err := files[0].WriteString("text\n"); err != nil {
		t.Fatal(err)
	}
	files[0].Close() // the only writer: cat sees the end
	for i, want := range []string{"", "text\nend\n", "err\n"} {
		if i == 0 {
			continue
		}
		if got, err := io.ReadAll(files[i]); err != nil || string(got) != want {
			t.Errorf("descriptor %d: %q, %v, want %q", i, got, err, want)
		}
	}
	if exit := wait(t, p); exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	if token := p.Token(); token != "" {
		t.Error("what was given away is given away again")
	}
	if _, err := p.Attach(t.Context(), nil, nil); err != launch.ErrHandedOver {
		t.Errorf("attach: %v, want %v", err, launch.ErrHandedOver)
	}
}

func TestProcessGetsSIGPIPEWhenPluginStopsReading(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	p := spawn(t, l, command("yes"))
	for _, f := range d.take(t, p.Token()) {
		f.Close()
	}
	if exit := wait(t, p); exit.Signal != syscall.SIGPIPE {
		t.Errorf("exit %+v, want SIGPIPE", exit)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	foreign := newPluginClient(t, l, "weather")
	s := command("sleep", "1000")
	s.Session = true
	p := spawn(t, l, s)

	used := p.Token()
	if len(d.take(t, used)) != 2 {
		t.Fatal("a fresh token was refused")
	}
	replaced := p.Token()
	stolen := p.Token()
	for name, token := range map[string]string{
		"used": used, "replaced": replaced, "empty": "", "too long": strings.Repeat("x", 5000), "wrong": "AAAA",
	} {
		if files := d.take(t, token); files != nil {
			t.Errorf("the %s token got %d files", name, len(files))
		}
	}
	if files := foreign.take(t, stolen); files != nil {
		t.Error("another plugin's socket gave the files out")
	}
	if files := d.take(t, stolen); files != nil {
		t.Error("a token that was shown to the wrong socket is alive")
	}
	last := p.Token()
	if err := l.EndThread(t.Context(), s.Owner.Thread); err != nil {
		t.Fatal(err)
	}
	if files := d.take(t, last); files != nil {
		t.Error("the token has survived its process")
	}
	if p.Token() != "" {
		t.Error("there is a token for a process that was forgotten")
	}
}

func TestSessionSurvivesItsPlugin(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	s := script(`while read line; do echo "got $line"; done; echo end`)
	s.Stdin, s.MergeStderr, s.Session, s.Keep = true, true, true, &launch.Keep{}
	p := spawn(t, l, s)
	talk := func(word string) {
		t.Helper()
		files := d.take(t, p.Token())
		if len(files) != 2 {
			t.Fatalf("%d files, want 2", len(files))
		}
		if _, err := files[0].WriteString(word + "\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(files[1]).ReadString('\n'); err != nil || line != "got "+word+"\n" {
			t.Errorf("answer %q, %v", line, err)
		}
		// When the plugin dies the kernel closes its descriptors.
		for _, f := range files {
			f.Close()
		}
	}
	talk("one")
	talk("two")
	if ps := l.Kept("shell", ""); len(ps) != 1 || ps[0] != p {
		t.Errorf("sessions %v", ps)
	}
	p.CloseStdin()
	if exit := wait(t, p); exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	// The last output remains for the next process of the plugin.
	<-p.Gone()
	if want := []string{"stdout"}; !slices.Equal(p.Descriptors(), want) {
		t.Errorf("descriptors %v, want %v", p.Descriptors(), want)
	}
	files := d.take(t, p.Token())
	if len(files) != 1 {
		t.Fatalf("%d files, want 1", len(files))
	}
	l.EndThread(t.Context(), s.Owner.Thread) // closes the host's
	if got, err := io.ReadAll(files[0]); err != nil || string(got) != "end\n" {
		t.Errorf("last output %q, %v", got, err)
	}
}

func TestServeDescriptorsWithSilentClients(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	for range 20 { // more than are served side by side
		conn, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	p := spawn(t, l, command("true"))
	if files := d.take(t, p.Token()); len(files) != 2 {
		t.Errorf("%d files, want 2", len(files))
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for _, tc := range []struct {
		name, script, want string
		size               launch.Size
		stdin              []string
	}{
		{name: "default size", script: "stty size", want: "24 80\r\n"},
		{name: "size", script: "stty size", size: launch.Size{Rows: 40, Cols: 132}, want: "40 132\r\n"},
		{name: "all three", script: "test -t 0 && test -t 1 && test -t 2 && echo yes", want: "yes\r\n"},
		{name: "controlling terminal", script: "echo hi > /dev/tty", want: "hi\r\n"},
		{name: "in the foreground", script: `set -- $(cut -d')' -f2 /proc/$$/stat); test $3 = $6 && test $4 = $3 && echo yes`, want: "yes\r\n"},
		{name: "echo", script: "read x; echo got $x", stdin: []string{"word\n"}, want: "word\r\ngot word\r\n"},
		{name: "end of input", script: "cat; echo end", stdin: []string{"\x04"}, want: "end\r\n"},
		{name: "stderr is the same", script: "echo a; echo b 1>&2", want: "a\r\nb\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := script(tc.script)
			s.Terminal = &tc.size
			stdout, stderr, exit := run(t, l, s, tc.stdin...)
			if stdout != tc.want || stderr != "" || exit.Code != 0 {
				t.Errorf("wrote %q and %q, code %d; want %q", stdout, stderr, exit.Code, tc.want)
			}
		})
	}
}

func TestInterruptThroughTheTerminal(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	// wait, not read: the shell handles a signal that comes just before a read only after the read.
	s := script(`trap 'echo got; exit 9' INT; stty -echo; sleep 1000 & echo ready; while :; do wait; done`)
	s.Terminal = &launch.Size{}
	p := spawn(t, l, s)
	if want := []string{"terminal"}; !slices.Equal(p.Descriptors(), want) {
		t.Fatalf("descriptors %v, want %v", p.Descriptors(), want)
	}
	files := d.take(t, p.Token())
	if len(files) != 1 {
		t.Fatalf("%d files, want 1", len(files))
	}
	out := bufio.NewReader(files[0])
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := files[0].WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != 9 {
		t.Errorf("exit %+v, want code 9", exit)
	}
	// The last output can still be read, then comes EIO.
	if line, err := out.ReadString('\n'); err != nil || line != "got\r\n" {
		t.Errorf("last words %q, %v", line, err)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	for _, session := range []bool{false, true} {
		s := script(`stty -echo; trap 'stty size' WINCH; echo ready; while :; do read x; done`)
		s.Terminal, s.Session = &launch.Size{}, session
		p := spawn(t, l, s)
		out := bufio.NewReader(d.take(t, p.Token())[0])
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		// This also works after the hand-over, because the host keeps the terminal.
		if err := p.Resize(50, 100); err != nil {
			t.Fatal(err)
		}
		if line, err := out.ReadString('\n'); err != nil || line != "50 100\r\n" {
			t.Errorf("size %q, %v", line, err)
		}
		if err := p.KillTree(t.Context()); err != nil {
			t.Error(err)
		}
	}
	p := spawn(t, l, command("sleep", "1000"))
	if err := p.Resize(50, 100); err == nil || !strings.Contains(err.Error(), "no terminal") {
		t.Errorf("resize without a terminal: %v", err)
	}
}

func TestDescriptorsDoNotLeak(t *testing.T) {
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	once := func() {
		for _, session := range []bool{false, true} {
			for _, terminal := range []*launch.Size{nil, {}} {
				s := script("echo text")
				s.Stdin, s.Session, s.Terminal = true, session, terminal
				p := spawn(t, l, s)
				for _, f := range d.take(t, p.Token()) {
					f.Close()
				}
				<-p.Gone()
				p.Release()
				s.Argv = []string{"/no/such/program"}
				if _, err := l.Spawn(t.Context(), s); err == nil {
					t.Fatal("it started")
				}
				s.Grant.Mode = "read-only"
				if _, err := l.Spawn(t.Context(), s); err == nil {
					t.Fatal("it started")
				}
			}
		}
	}
	once()
	l.Spare()
	before := openFDs(t)
	for range 5 {
		once()
	}
	l.Spare()
	if after := openFDs(t); after > before {
		names, _ := os.ReadDir("/proc/self/fd")
		for _, n := range names {
			to, _ := os.Readlink("/proc/self/fd/" + n.Name())
			t.Log(n.Name(), to)
		}
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
