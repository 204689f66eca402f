package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Spawn implements the rpc. The process runs under the grant of the call or of the command.
func (s *server) Spawn(ctx context.Context, r *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	if err := s.may(capSpawn); err != nil {
		return nil, err
	}
	if r.GetDeclared() != "" {
		return s.spawnDeclared(ctx, r)
	}
	if len(r.GetArgv()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "argv is empty")
	}
	spec, err := specOf(r)
	if err != nil {
		return nil, err
	}
	if c, ok := s.Commands.lookup(s.id.Label, r.GetCallToken()); ok {
		return s.spawnForCommand(ctx, c, r, spec)
	}
	l, err := s.live(r.GetCallToken())
	if err != nil {
		return nil, err
	}
	// Computed before join, which may wait until the start of the call is committed.
	spec.Env = environment(s.Environment(), r.GetEnv(), r.GetUnset())
	ctx, done, err := l.Join(ctx)
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	defer done()
	spec.Cwd = cmp.Or(r.GetCwd(), l.Call.Cwd)
	start := orchestrate.Start{Argv: r.GetArgv(), Cwd: spec.Cwd, Set: r.GetEnv(), Unset: r.GetUnset()}
	if start.Bound, err = s.Starts(s.id.Label, r.GetArgv()); err != nil {
		return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: err.Error()}}, nil
	}
	if denial, err := l.Exec(ctx, start); err != nil {
		return nil, statusOf(err)
	} else if denial != "" {
		return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: denial}}, nil
	}
	spec.ReadOnly = spec.ReadOnly || l.ReadOnly && !r.GetNarrow() // which writes nothing of the user's
	spec.Holder, spec.Grant = s.id.Generation, l.Grant
	if err := narrow(r, &spec, s.Folders(s.id.Label), s.NetworkMode(s.id.Label)); err != nil {
		return nil, err
	}
	spec.Owner = launch.Owner{Plugin: s.id.Label, Thread: string(l.Call.Thread), Call: string(l.Call.ID)}
	begin := s.start
	if r.GetOwner() == gantryv1.ProcessOwner_PROCESS_OWNER_ROOT {
		begin = func(ctx context.Context, spec launch.Spec) (*launch.Process, *gantryv1.SpawnResponse, error) {
			return startForRoot(ctx, s, spec)
		}
	}
	p, resp, err := begin(ctx, spec)
	if p != nil && spec.Session {
		// The interrupt also cancels this rpc, and then its response may be lost. Nobody else would end the session.
		l.OnInterrupt(func() { _ = s.Launcher.EndUnclaimed(context.WithoutCancel(ctx), p) }) // the launcher reports what it can't end
	}
	return resp, err
}

// specOf returns what a request says about a process, which is not yet in whose name it starts.
func specOf(r *gantryv1.SpawnRequest) (spec launch.Spec, err error) {
	keep, err := keepOf(r)
	if err != nil {
		return spec, err
	}
	limits := launch.Limits{
		MemoryBytes: r.GetLimits().GetMemoryBytes(), MaxPids: r.GetLimits().GetPids(), CPUSeconds: r.GetLimits().GetCpuSeconds(),
		OpenFiles: r.GetLimits().GetOpenFiles(), FileBytes: r.GetLimits().GetFileBytes(),
	}
	if err := limits.Check(); err != nil {
		return spec, status.Error(codes.InvalidArgument, err.Error())
	}
	spec = launch.Spec{
		Argv: r.GetArgv(), Stdin: r.GetStdin(), MergeStderr: r.GetMergeStderr(), Session: r.GetSession(), ReadOnly: r.GetReadOnly(), Keep: keep, Limits: limits,
	}
	if t := r.GetTerminal(); t != nil {
		spec.Terminal = &launch.Size{Rows: orDefault(t.GetRows(), 24), Cols: orDefault(t.GetCols(), 80)}
	}
	return spec, nil
}

// startForRoot starts a process that belongs to the root of its call's thread.
func startForRoot(ctx context.Context, s *server, spec launch.Spec) (*launch.Process, *gantryv1.SpawnResponse, error) {
	if !spec.Session {
		return nil, nil, status.Error(codes.InvalidArgument, "only a session can belong to the root thread: other processes end with their call")
	}
	root := s.Root(event.ThreadID(spec.Owner.Thread))
	spec.Owner.Thread = string(root)
	spec.Grant.Quiet = true // the call, in whose name the user is asked, is of another thread
	p, resp, err := s.start(ctx, spec)
	if _, runs := s.Threads(root); !runs && err == nil { // it has ended meanwhile, and the launcher did not know the process
		_ = s.Launcher.EndThread(ctx, string(root)) // the launcher reports what it can't end
		return nil, nil, status.Error(codes.PermissionDenied, "the thread has ended")
	}
	return p, resp, err
}

// start starts a process, which is nil if it did not start.
func (s *server) start(ctx context.Context, spec launch.Spec) (*launch.Process, *gantryv1.SpawnResponse, error) {
	p, err := s.Launcher.Spawn(ctx, spec)
	if se, ok := errors.AsType[*launch.StartError](err); ok {
		message := se.Message
		if spec.Owner.Thread == "" && se.Path != "" { // of others, the plugin has named the folder and the program itself
			message = se.Error()
		}
		return nil, &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: message, Errno: int32(se.Errno), Denied: se.Denied}}, nil
	}
	if ue, ok := errors.AsType[*launch.UnsupportedError](err); ok {
		return nil, &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: ue.Error(), Denied: true}}, nil
	}
	if err != nil {
		return nil, nil, statusOf(err)
	}
	return p, &gantryv1.SpawnResponse{
		ProcessId: p.ID(), Pid: int64(p.PID()), DescriptorToken: p.Token(), Descriptors: p.Descriptors(),
	}, nil
}

func orDefault(v uint32, d uint16) uint16 {
	if v == 0 || v > 1<<15 {
		return d
	}
	return uint16(v)
}

// environment applies a plugin's changes to an environment. A value that is set and unset is set.
func environment(base []string, set map[string]string, unset []string) []string {
	out := make([]string, 0, len(base)+len(set))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := set[name]; !replaced && !slices.Contains(unset, name) {
			out = append(out, kv)
		}
	}
	for k, v := range set {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// process finds a process of the calling plugin. Processes of other plugins are not found.
func (s *server) process(id string) (*launch.Process, error) {
	p, ok := s.Launcher.Process(id)
	if !ok || p.Owner().Plugin != s.id.Label {
		return nil, status.Errorf(codes.NotFound, "no process %q of this plugin", id)
	}
	return p, nil
}

// Signal implements the rpc.
func (s *server) Signal(ctx context.Context, r *gantryv1.SignalRequest) (*gantryv1.SignalResponse, error) {
	p, err := s.process(r.GetProcessId())
	if err != nil {
		if status.Code(err) == codes.NotFound {
			return &gantryv1.SignalResponse{Gone: true}, nil
		}
		return nil, err
	}
	if t := r.GetResize(); t != nil {
		if err := p.Resize(orDefault(t.GetRows(), 24), orDefault(t.GetCols(), 80)); err != nil {
			return nil, statusOf(err)
		}
	}
	if r.GetKillTree() {
		if err := p.KillTree(ctx); err != nil {
			return nil, statusOf(err)
		}
	} else if sig := r.GetSignal(); sig != 0 {
		err := p.Signal(syscall.Signal(sig), !r.GetProcessOnly())
		if errors.Is(err, os.ErrProcessDone) {
			return &gantryv1.SignalResponse{Gone: true}, nil
		}
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return &gantryv1.SignalResponse{}, nil
}

// ProcessStat implements the rpc.
func (s *server) ProcessStat(_ context.Context, r *gantryv1.ProcessStatRequest) (*gantryv1.ProcessStatResponse, error) {
	p, err := s.process(r.GetProcessId())
	if err != nil {
		return nil, err
	}
	t := launch.ReadTree(p)
	return &gantryv1.ProcessStatResponse{MemoryBytes: t.Resident, Pids: int64(t.PIDs), CpuMs: t.CPU.Milliseconds(), MemoryLimitBytes: launch.MemoryLimit(p)}, nil
}

// Wait implements the rpc. A plugin asks once how a process ended, so the host forgets the process after it has answered: a
// session belongs to no call, and its thread may last for days. Processes that can be adopted are forgotten by Release instead,
// because the caller may crash before it has reported the end.
func (s *server) Wait(ctx context.Context, r *gantryv1.WaitRequest) (*gantryv1.WaitResponse, error) {
	p, err := s.process(r.GetProcessId())
	if err != nil {
		return nil, err
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	if !p.IsKept() {
		p.Release()
	}
	return exitToProto(exit), nil
}

func exitToProto(e launch.Exit) *gantryv1.WaitResponse {
	return &gantryv1.WaitResponse{
		ExitCode: int32(e.Code), Signal: int32(e.Signal), UserMs: e.User.Milliseconds(), SystemMs: e.System.Milliseconds(),
		MaxRssBytes: e.MaxRSS, Limit: e.Limit,
	}
}

// Attach implements the rpc. It carries the input and output of a process where descriptors can't be passed.
func (s *server) Attach(stream grpc.BidiStreamingServer[gantryv1.AttachRequest, gantryv1.AttachResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	p, err := s.process(first.GetProcessId())
	if err != nil {
		return err
	}
	if first.GetCloseStdin() && len(first.GetStdin()) == 0 {
		// Only close stdin; the plugin reads the output through its descriptors.
		p.CloseStdin()
		return nil
	}
	return attach(stream, p, first)
}

func jsonString(s string) []byte {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

func validJSON(b []byte) bool { return len(b) == 0 || json.Valid(b) }

// chunk is the maximum number of bytes in a message of a stream.
const chunk = 32 << 10

// PutArtifact implements the rpc.
func (s *server) PutArtifact(stream grpc.ClientStreamingServer[gantryv1.PutArtifactRequest, gantryv1.PutArtifactResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := s.spend(limitArtifacts, len(first.GetMediaType())+len(first.GetName())+len(first.GetData())+fileOverhead); err != nil {
		return err
	}
	spend := func(n int) error { return s.spend(limitArtifacts, n) }
	ref, err := s.Store.PutArtifact(stream.Context(), first.GetMediaType(), first.GetName(), &uploads{stream: stream, rest: first.GetData(), spend: spend})
	if exceeded, ok := errors.AsType[*exceededError](err); ok {
		return exceeded
	}
	if err != nil {
		return statusOf(err)
	}
	return stream.SendAndClose(&gantryv1.PutArtifactResponse{Artifact: &gantryv1.ArtifactRef{
		Sha256: ref.SHA256, SizeBytes: ref.SizeBytes, MediaType: ref.MediaType, Name: ref.Name,
	}})
}

// uploads reads the data of a client stream.
type uploads struct {
	stream grpc.ClientStreamingServer[gantryv1.PutArtifactRequest, gantryv1.PutArtifactResponse]
	rest   []byte
	spend  func(n int) error
}

func (u *uploads) Read(b []byte) (int, error) {
	for len(u.rest) == 0 {
		m, err := u.stream.Recv()
		if err != nil {
			return 0, err // io.EOF at the end
		}
		u.rest = m.GetData()
		if err := u.spend(len(u.rest)); err != nil {
			return 0, err
		}
	}
	n := copy(b, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// GetArtifact implements the rpc.
func (s *server) GetArtifact(r *gantryv1.GetArtifactRequest, stream grpc.ServerStreamingServer[gantryv1.GetArtifactResponse]) error {
	rc, err := s.Store.Artifact(stream.Context(), r.GetSha256())
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	defer rc.Close()
	buf := make([]byte, chunk)
	for {
		n, err := rc.Read(buf)
		if n > 0 {
			if serr := stream.Send(&gantryv1.GetArtifactResponse{Data: buf[:n]}); serr != nil {
				return serr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return statusOf(err)
		}
	}
}
