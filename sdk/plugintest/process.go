package plugintest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

const (
	// maxSeen is how much of a plugin's output is recorded for the report.
	maxSeen = 8 << 10
	// pipeTimeout is how long the pipes of a process are read after it has ended.
	pipeTimeout = 100 * time.Millisecond
	// killTimeout bounds the wait for a killed process.
	killTimeout = 5 * time.Second
)

// spawn specifies how a process is started.
type spawn struct {
	args        []string
	transport   string // empty: started without a host, as on the command line
	env         []string
	withHome    bool         // with a home folder, which is also the working directory
	restriction *restriction // nil: unrestricted
}

// process is a plugin process with its output.
type process struct {
	cmd        *exec.Cmd
	hello      wire.Hello
	tls        *wire.Material // the kit's side of mutual TLS
	dir        string         // the folder for its socket, which also identifies it in the environment of its descendants
	life       *os.File
	outR, errR *os.File
	began      time.Time
	stderr     *tail
	pumps      sync.WaitGroup
	exited     chan struct{}

	// Only with a host.
	handshaken chan struct{} // closed when the handshake line has been read, or stdout has ended
	line       wire.Handshake
	refuse     error // why the handshake line is invalid
	noise      []byte
	after      time.Duration // until the line

	// Only without a host.
	stdout head // complete after exited and pumps

	conns      []*grpc.ClientConn
	conn       *grpc.ClientConn // with the token
	configured bool
	atStart    children // after the handshake
	watch      *watch
}

// run starts the process. The caller must call kill.
func (k *kit) run(s spawn) (_ *process, err error) {
	p := &process{stderr: &tail{}, exited: make(chan struct{}), handshaken: make(chan struct{})}
	if p.dir, err = os.MkdirTemp(k.sockets, "p"); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(k.path, append(append([]string(nil), k.cfg.Args...), s.args...)...)
	p.cmd.Env = append(k.environment(), s.env...)
	p.cmd.Dir = k.unwritable
	if s.withHome {
		p.cmd.Dir = k.home
		p.cmd.Env = append(p.cmd.Env, "HOME="+k.home)
	}
	detach(p.cmd)
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.closeFiles()
		}
	}()
	var outW, errW *os.File
	if p.outR, outW, err = os.Pipe(); err != nil {
		return nil, err
	}
	theirs = append(theirs, outW)
	if p.errR, errW, err = os.Pipe(); err != nil {
		return nil, err
	}
	theirs = append(theirs, errW)
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	if s.transport != "" {
		var lifeR *os.File
		if lifeR, p.life, err = os.Pipe(); err != nil {
			return nil, err
		}
		theirs = append(theirs, lifeR)
		if err := p.writeHello(s.transport); err != nil {
			return nil, err
		}
		p.cmd.ExtraFiles = []*os.File{lifeR}
		p.cmd.Env = append(p.cmd.Env, wire.CookieKey+"="+wire.CookieValue, wire.ProtocolVersionsEnv+"=1",
			wire.SocketDirEnv+"="+p.dir, wire.LifelineEnv+"=3")
	}
	p.began = time.Now()
	if s.restriction != nil {
		h := *s.restriction
		h.writes = append(slices.Clone(h.writes), p.dir)
		if s.withHome {
			h.writes = append(h.writes, k.home)
		}
		err = startRestricted(p.cmd, &h)
	} else {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	// Owner: the process. kill waits for it.
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	p.pumps.Go(func() { _, _ = io.Copy(p.stderr, p.errR) })
	if s.transport == "" {
		p.pumps.Go(func() { _, _ = io.Copy(&p.stdout, p.outR) })
	} else {
		p.pumps.Go(p.readHandshake)
	}
	return p, nil
}

func (p *process) writeHello(transport string) (err error) {
	p.hello = wire.Hello{Token: wire.NewToken(), Transport: transport}
	if transport == wire.TransportTLS {
		if p.hello.TLS, p.tls, err = wire.NewMaterials(); err != nil {
			return err
		}
	}
	return wire.WriteHello(p.life, p.hello)
}

// readHandshake reads the handshake line, and discards the rest of stdout, so that the plugin never blocks on a full pipe.
func (p *process) readHandshake() {
	out := bufio.NewReaderSize(p.outR, 64<<10)
	for {
		b, err := out.ReadSlice('\n')
		if line := string(b); line != "" {
			h, perr := wire.ParseHandshake(line)
			if perr == nil || !errors.Is(perr, wire.ErrNotHandshake) {
				p.line, p.refuse, p.after = h, perr, time.Since(p.began)
				break
			}
			p.noise = append(p.noise, line[:min(len(line), maxSeen-len(p.noise))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			p.refuse = errors.New("a line is longer than 64 KiB")
			break
		}
		if err != nil {
			p.refuse = io.ErrUnexpectedEOF
			break
		}
	}
	close(p.handshaken)
	_, _ = io.Copy(io.Discard, out)
}

// dead reports whether the process has ended.
func (p *process) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// wait reports whether the process ends within d.
func (p *process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// end describes how the process ended, with its last lines of stderr.
func (p *process) end() string {
	s := "it has not ended"
	if p.dead() {
		s = p.cmd.ProcessState.String()
	}
	if said := p.stderr.last(); said != "" {
		s += "; stderr ends with:\n" + said
	}
	return s
}

func (p *process) dialer(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, p.line.Network, p.line.Address)
}

// dial connects with the given token, or without one if it is empty.
func (p *process) dial(token string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	opts := []grpc.DialOption{
		grpc.WithContextDialer(p.dialer), grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	if token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(wire.Token(token)))
	}
	conn, err := grpc.NewClient("passthrough:///plugin", opts...)
	if err == nil {
		p.conns = append(p.conns, conn)
	}
	return conn, err
}

func (p *process) plugin() gantryv1.PluginServiceClient {
	return gantryv1.NewPluginServiceClient(p.conn)
}
func (p *process) tools() gantryv1.ToolServiceClient { return gantryv1.NewToolServiceClient(p.conn) }
func (p *process) provider() gantryv1.ProviderServiceClient {
	return gantryv1.NewProviderServiceClient(p.conn)
}

// disconnect closes all connections and pipes, like the end of the host process.
func (p *process) disconnect() {
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.closeFiles()
}

// closeFiles closes the pipes, and the lifeline last: when the plugin notices its end, the others are closed already.
func (p *process) closeFiles() {
	for _, f := range []*os.File{p.outR, p.errR, p.life} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// finish reads the rest of the pipes of a process that has ended.
func (p *process) finish() {
	until := time.Now().Add(pipeTimeout)
	_, _ = p.outR.SetReadDeadline(until), p.errR.SetReadDeadline(until)
	p.pumps.Wait()
}

// kill ends the process and its descendants, and releases its resources.
func (p *process) kill() {
	for _, c := range p.conns {
		_ = c.Close()
	}
	if p.watch != nil {
		p.watch.close()
	}
	family := p.descendants()
	killGroup(p.cmd.Process)
	for _, pid := range append(family, p.marked()...) {
		killPID(pid)
	}
	p.wait(killTimeout)
	p.finish()
	p.closeFiles()
	_ = os.RemoveAll(p.dir)
}

// descendants lists the descendants of the process that have not been reparented, including those without its environment.
// After the process has ended, there are none, because its PID may have been reused.
func (p *process) descendants() []int {
	if p.dead() {
		return nil
	}
	return descendants(p.cmd.Process.Pid)
}

// children describes the processes that a process has started.
type children struct {
	living []int
	faults int64 // page faults of those that have ended; every process causes some
}

func (p *process) children() children {
	if p.dead() {
		return children{}
	}
	pid := p.cmd.Process.Pid
	return children{slices.Concat(p.descendants(), slices.DeleteFunc(p.marked(), func(other int) bool { return other == pid })), childFaults(pid)}
}

// hasStarted reports whether the process has started another one since the handshake.
func (p *process) hasStarted() bool {
	now := p.children()
	return now.faults > p.atStart.faults || slices.ContainsFunc(now.living, func(pid int) bool { return !slices.Contains(p.atStart.living, pid) })
}

// marked lists the processes with the environment of this one, including itself if it is running.
func (p *process) marked() []int { return marked(wire.SocketDirEnv + "=" + p.dir) }

// sockets lists the files in the folder for the socket.
func (p *process) sockets() []string {
	entries, _ := os.ReadDir(p.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if p.line.Network == "unix" && filepath.Dir(p.line.Address) != p.dir {
		if _, err := os.Lstat(p.line.Address); err == nil {
			names = append(names, p.line.Address)
		}
	}
	return names
}

// head stores the beginning of what is written to it, up to the maximum size of a manifest.
type head struct{ bytes.Buffer }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	if room := contract.MaxManifestBytes - h.Len(); room > 0 {
		h.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// ReadFrom hides the method of the buffer, which has no limit.
func (h *head) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{h}, r) }

// tail stores the end of what is written to it.
type tail struct {
	mu struct {
		sync.Mutex
		b []byte
	}
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.b = append(t.mu.b, p...)
	if over := len(t.mu.b) - maxSeen; over > 0 {
		t.mu.b = append(t.mu.b[:0], t.mu.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.b)
}

// last returns the last few lines, formatted for the report.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(t.text(), "\uFFFD")), "\n")
	if n := len(lines) - 8; n > 0 {
		lines = append([]string{"…"}, lines[n:]...)
	}
	for i, l := range lines {
		if r := []rune(l); len(r) > 300 {
			lines[i] = string(r[:300]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// exitCode returns the exit code of a process that has ended, or -1 if a signal ended it.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// quote formats output for the report.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
