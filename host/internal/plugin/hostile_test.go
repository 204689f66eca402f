//go:build linux

package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// modeVariable makes the test binary a plugin; its value is the mode of behave.
const modeVariable = "PLUGIN_UNDER_TEST"

// behave is the main function of a plugin under test. It returns the exit status.
func behave(mode string) int {
	hangFor("start")
	switch mode {
	case "serve": // a good plugin
		return wire.Serve(context.Background(), serveConfig())
	case "bare": // serves only the contract, without health and controller; exits on SIGTERM
		return bare(false)
	case "stubborn": // the same, and ignores SIGTERM and the lifeline
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		return bare(true)
	case "line": // prints LINE as the handshake and waits
		printLine(os.Getenv("LINE"))
		select {}
	case "line-exit":
		printLine(os.Getenv("LINE"))
		return atoi(os.Getenv("STATUS"))
	case "print": // prints PRINT and ends with STATUS
		fmt.Print(os.Getenv("PRINT"))
		fmt.Fprint(os.Stderr, os.Getenv("PRINT_ERR"))
		return atoi(os.Getenv("STATUS"))
	case "hang":
		if f := os.Getenv("FIFO"); f != "" {
			_, _ = os.ReadFile(f)
		}
		select {}
	case "panic":
		panic("no way to start")
	case "stopself": // stops itself with SIGSTOP before the handshake
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	case "noise": // LINES lines of noise, then a good plugin
		for i := range atoi(os.Getenv("LINES")) {
			fmt.Printf("npm warn %d\n", i)
		}
		return wire.Serve(context.Background(), serveConfig())
	case "noise-bytes":
		fmt.Println(strings.Repeat("x", atoi(os.Getenv("BYTES"))))
		return wire.Serve(context.Background(), serveConfig())
	case "deaf": // listens and never accepts
		ln := mustListen()
		printLine("1|1|unix|" + ln.Addr().String() + "|grpc")
		select {}
	case "silent": // accepts and never answers
		ln := mustListen()
		printLine("1|1|unix|" + ln.Addr().String() + "|grpc")
		for {
			if _, err := ln.Accept(); err != nil {
				return 1
			}
		}
	case "sleep": // a grandchild; keeps inherited descriptors open
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		select {}
	case "stderr": // prints the file STDERR_FILE to stderr, then serves
		b, err := os.ReadFile(os.Getenv("STDERR_FILE"))
		if err != nil {
			return 9
		}
		_, _ = os.Stderr.Write(b)
		return wire.Serve(context.Background(), serveConfig())
	}
	fmt.Fprintln(os.Stderr, "unknown mode", mode)
	return 99
}

// hangFor hangs in the phase of the start that HANGS names, until it is killed; in total as many times as HANGS says.
func hangFor(phase string) {
	in, times, _ := strings.Cut(os.Getenv("HANGS"), "=")
	if in != phase {
		return
	}
	for i := range atoi(times) {
		if os.Mkdir(filepath.Join(os.Getenv("HANGS_IN"), strconv.Itoa(i)), 0o700) == nil {
			select {}
		}
	}
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// printLine prints a line, with {dir} replaced by the folder for sockets.
func printLine(s string) {
	fmt.Println(strings.ReplaceAll(s, "{dir}", os.Getenv(wire.SocketDirEnv)))
}

func mustListen() net.Listener {
	ln, err := net.Listen("unix", filepath.Join(os.Getenv(wire.SocketDirEnv), "p"))
	if err != nil {
		panic(err)
	}
	return ln
}

func testManifest() *contract.Manifest {
	m := &contract.Manifest{
		Name: "under-test", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{1},
		Description: "A plugin of the supervisor's tests.",
	}
	if os.Getenv("KIND") == "provider" {
		m.Kind = contract.KindProvider
	}
	if v := os.Getenv("VERSION"); v != "" {
		m.Version = v
	}
	if c := os.Getenv("CAPABILITIES"); c != "" {
		m.Capabilities = strings.Split(c, ",")
	}
	if n := os.Getenv("MAX_MESSAGE"); n != "" {
		m.Limits.MaxMessageBytes = int64(atoi(n))
	}
	return m
}

func serveConfig() wire.ServeConfig {
	return wire.ServeConfig{
		Manifest: testManifest,
		Register: func(s *grpc.Server) {
			gantryv1.RegisterPluginServiceServer(s, &underTest{})
			s.RegisterService(&hostileBroker, nil)
		},
		Args: []string{},
	}
}

// hostileBroker would make go-plugin start a goroutine of five seconds for each message that it sends.
var hostileBroker = grpc.ServiceDesc{
	ServiceName: "plugin.GRPCBroker",
	Streams: []grpc.StreamDesc{{
		StreamName: "StartStream", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			fmt.Fprintln(os.Stderr, "the broker was opened")
			for {
				if err := s.SendMsg(&emptypb.Empty{}); err != nil {
					return err
				}
			}
		},
	}},
}

// bare serves only the contract, as a plugin in another language might.
func bare(stubborn bool) int {
	life := os.NewFile(3, "lifeline")
	hello, err := wire.ReadHello(bufio.NewReader(life))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	unary, stream := wire.RequireToken(hello.Token)
	srv := grpc.NewServer(grpc.Creds(wire.PeerCredentials(wire.SameUser)), grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	gantryv1.RegisterPluginServiceServer(srv, &underTest{})
	ln := mustListen()
	printLine("1|1|unix|" + ln.Addr().String() + "|grpc")
	if !stubborn {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go func() { <-signals; os.Exit(0) }() // owned by the process: ends with it
	}
	_ = srv.Serve(ln)
	return 0
}

// underTest is the PluginService of all plugins. Tests make it misbehave with Command.
type underTest struct {
	gantryv1.UnimplementedPluginServiceServer
	configured *gantryv1.ConfigureRequest
}

func (u *underTest) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	hangFor("describe")
	switch os.Getenv("DESCRIBE") {
	case "exit":
		os.Exit(4)
	case "hang":
		select {}
	case "empty":
		return &gantryv1.DescribeResponse{}, nil
	case "error":
		return nil, status.Error(codes.Internal, "no idea")
	}
	return &gantryv1.DescribeResponse{Manifest: convert.ManifestToProto(testManifest())}, nil
}

func (u *underTest) Configure(_ context.Context, r *gantryv1.ConfigureRequest) (*gantryv1.ConfigureResponse, error) {
	u.configured = r
	hangFor("configure")
	switch os.Getenv("CONFIGURE") {
	case "refuse":
		return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto([]contract.Diagnostic{{
			Severity: contract.SeverityError, Summary: "unknown unit", Path: []contract.Step{contract.Name("units")},
			Next: "use metric or imperial",
		}})}, nil
	case "warn":
		return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto([]contract.Diagnostic{{
			Severity: contract.SeverityWarning, Summary: "units is deprecated",
		}})}, nil
	case "crash":
		panic("boom in configure") // recovered by the serve loop
	case "exit":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(5)
	}
	return &gantryv1.ConfigureResponse{}, nil
}

func (u *underTest) Drain(ctx context.Context, _ *gantryv1.DrainRequest) (*gantryv1.DrainResponse, error) {
	if os.Getenv("DRAIN") == "hang" {
		select {}
	}
	return &gantryv1.DrainResponse{}, nil
}

func (u *underTest) Command(ctx context.Context, r *gantryv1.CommandRequest) (*gantryv1.CommandResponse, error) {
	answer := func(v any) (*gantryv1.CommandResponse, error) {
		b, err := json.Marshal(v)
		return &gantryv1.CommandResponse{OutputJson: b}, err
	}
	switch r.Name {
	case "echo":
		return &gantryv1.CommandResponse{OutputJson: r.InputJson}, nil
	case "big":
		return &gantryv1.CommandResponse{OutputJson: make([]byte, atoi(string(r.InputJson)))}, nil
	case "env":
		return answer(os.Environ())
	case "pid":
		return answer(os.Getpid())
	case "generation":
		return answer(u.configured.Generation)
	case "facts":
		return answer(map[string]any{
			"data": u.configured.DataDir, "cache": u.configured.CacheDir, "config": string(u.configured.ConfigJson),
			"socket": u.configured.Host.ServicesSocket, "token": u.configured.Host.ServicesToken,
			"descriptors": u.configured.Host.DescriptorsSocket, "label": u.configured.Label,
		})
	case "fds":
		return answer(openDescriptors())
	case "stdin":
		n, err := os.Stdin.Read(make([]byte, 1))
		return answer(fmt.Sprint(n, err))
	case "exit":
		os.Exit(atoi(string(r.InputJson)))
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "panic": // in a goroutine that the process owns, so that it is not recovered
		go panic("boom")
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return answer("continued")
	case "wait": // until the call is cancelled
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "gate": // until the test writes to the FIFO INPUT
		if _, err := os.ReadFile(string(r.InputJson)); err != nil {
			return nil, err
		}
		return answer("opened")
	case "stdout": // prints INPUT bytes in one line, then a second line
		fmt.Fprintf(os.Stdout, "%s\nand more\n", strings.Repeat("x", atoi(string(r.InputJson))))
		return answer("written")
	case "stderr":
		_, err := os.Stderr.Write(r.InputJson)
		return answer(fmt.Sprint(err))
	case "child": // a grandchild of the host; INPUT may be "setsid"
		return answer(startGrandchild(string(r.InputJson) == "setsid"))
	case "keep": // INPUT bytes in its data folder, or INPUT:N empty files
		path := filepath.Join(u.configured.DataDir, "kept")
		size, files, many := strings.Cut(string(r.InputJson), ":")
		for i := range atoi(files) {
			if err := os.WriteFile(path+strconv.Itoa(i), nil, 0o600); err != nil {
				return nil, err
			}
		}
		if many {
			return answer(files)
		}
		return answer(os.WriteFile(path, make([]byte, atoi(size)), 0o600) == nil)
	case "keep on": // grows a file in its data folder by INPUT bytes every few milliseconds, after it has answered
		f, err := os.Create(filepath.Join(u.configured.DataDir, "kept"))
		if err != nil {
			return nil, err
		}
		go func() { // ends with the process
			for range time.Tick(20 * time.Millisecond) {
				if _, err := f.Write(make([]byte, atoi(string(r.InputJson)))); err != nil {
					return
				}
			}
		}()
		return answer(true)
	case "later": // writes INPUT bytes to its data folder after the call, once the test writes to the pipe in INPUT
		pipe := filepath.Join(u.configured.DataDir, "go")
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			return nil, err
		}
		go func() { // owned by the process, and ends with it
			if _, err := os.ReadFile(pipe); err == nil {
				_ = os.WriteFile(filepath.Join(u.configured.DataDir, "later"), make([]byte, atoi(string(r.InputJson))), 0o600)
			}
		}()
		return answer(pipe)
	case "memory":
		return answer(len(touch(atoi(string(r.InputJson)))))
	case "emit": // calls the host back
		conn, err := wire.DialHost(ctx, u.configured.Host.ServicesSocket, string(r.InputJson))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if string(r.InputJson) == "" {
			return nil, errors.New("no token")
		}
		_, err = gantryv1.NewHostServiceClient(conn).Emit(ctx, &gantryv1.EmitRequest{Kind: "test"})
		return answer(status.Code(err).String())
	case "descriptor":
		files, err := wire.ReceiveDescriptors(ctx, u.configured.Host.DescriptorsSocket, "the-token", 1)
		if err != nil {
			return nil, err
		}
		defer files[0].Close()
		b := make([]byte, 5)
		if _, err := files[0].Read(b); err != nil {
			return nil, err
		}
		return answer(string(b))
	}
	return &gantryv1.CommandResponse{Error: "unknown command " + r.Name}, nil
}

// kept keeps allocated memory reachable.
var kept []byte

func touch(n int) []byte {
	kept = make([]byte, n)
	for i := 0; i < n; i += 4096 {
		kept[i] = 1
	}
	return kept
}

// startGrandchild starts a process that inherits our descriptors and never exits.
func startGrandchild(newSession bool) int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), modeVariable+"=sleep")
	cmd.Stdout, cmd.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: newSession}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// openDescriptors lists our open descriptors, except for sockets and those of the Go runtime.
func openDescriptors() []string {
	var found []string
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if n == strconv.Itoa(int(d.Fd())) {
			continue
		}
		link, err := os.Readlink("/proc/self/fd/" + n)
		if err != nil || strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "socket:") || strings.HasPrefix(link, "/sys/fs/cgroup/") {
			continue
		}
		var st unix.Stat_t
		_ = unix.Fstat(atoi(n), &st)
		found = append(found, n+" "+strings.SplitN(link, ":", 2)[0])
	}
	return found
}
