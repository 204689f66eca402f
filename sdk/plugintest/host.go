package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// host implements HostService for the plugin under test. Processes and artifacts are real, and state is in memory. It grants
// every authorization unless it is told to deny them, and declines every question.
type host struct {
	*processtest.Host
	tb *cleanupTB
	mu struct {
		sync.Mutex
		secrets map[string]string // by handle
		state   map[string]entry
		fence   uint64
		held    map[string]bool
		used    map[string]string // a called RPC for each capability that was used
		// The last process whose limits were invalid; empty: there was none.
		badLimits string
		// The last request for a declared process that a host refuses; empty: there was none.
		badDeclared string
		changed     []string // called RPCs that have effects outside the plugin, in order
		denials     denials
	}
}

// use records that the plugin has called an RPC that needs a capability.
func (h *host) use(capability, rpc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.used[capability] = rpc
}

// change records that the plugin has called an RPC with effects outside the plugin.
func (h *host) change(rpc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.changed = append(h.mu.changed, rpc)
}

func (h *host) changes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.changed)
}

func (h *host) invalidLimits() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.badLimits
}

func (h *host) usedCapabilities() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.mu.used)
}

// Spawn implements HostService.
func (h *host) Spawn(ctx context.Context, r *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	h.use("spawn", "Spawn")
	if l := r.GetLimits(); min(l.GetMemoryBytes(), l.GetPids(), l.GetCpuSeconds(), l.GetOpenFiles(), l.GetFileBytes()) < 0 {
		h.mu.Lock()
		h.mu.badLimits = fmt.Sprintf("%q: %v", r.GetArgv(), l)
		h.mu.Unlock()
		return nil, status.Error(codes.InvalidArgument, "a limit is negative")
	}
	resp, err := h.Host.Spawn(ctx, r)
	if err != nil && r.GetDeclared() != "" {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.badDeclared = status.Convert(err).Message()
	}
	return resp, err
}

func (h *host) invalidDeclared() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.badDeclared
}

// Adopt implements HostService.
func (h *host) Adopt(ctx context.Context, r *gantryv1.AdoptRequest) (*gantryv1.AdoptResponse, error) {
	h.use("spawn", "Adopt")
	return h.Host.Adopt(ctx, r)
}

// StoreSecret implements HostService.
func (h *host) StoreSecret(ctx context.Context, r *gantryv1.StoreSecretRequest) (*gantryv1.StoreSecretResponse, error) {
	h.use("secrets", "StoreSecret")
	h.change("StoreSecret")
	return h.Host.StoreSecret(ctx, r)
}

// PutArtifact implements HostService.
func (h *host) PutArtifact(stream gantryv1.HostService_PutArtifactServer) error {
	h.change("PutArtifact")
	return h.Host.PutArtifact(stream)
}

type entry struct {
	value   []byte
	version uint64
}

func startHost() (h *host, err error) {
	h = &host{tb: &cleanupTB{}}
	h.mu.secrets, h.mu.state, h.mu.held = map[string]string{}, map[string]entry{}, map[string]bool{}
	h.mu.used = map[string]string{}
	defer func() {
		if v := recover(); v != nil {
			f, ok := v.(fatal)
			if !ok {
				panic(v)
			}
			h.tb.clean()
			h, err = nil, errors.New("start the kit's host services: "+string(f))
		}
	}()
	h.Host = processtest.Start(h.tb, processtest.Options{Service: func(p *processtest.Host) gantryv1.HostServiceServer {
		h.Host = p
		return h
	}})
	return h, nil
}

func (h *host) close() { h.tb.clean() }

// cleanupTB is the testing.TB for [processtest.Start] outside of a test. It implements only the methods that are called.
type cleanupTB struct {
	testing.TB
	cleanups []func()
}

type fatal string

// Helper implements testing.TB.
func (b *cleanupTB) Helper() {}

// Fatal implements testing.TB.
func (b *cleanupTB) Fatal(args ...any) { panic(fatal(fmt.Sprint(args...))) }

// Logf implements testing.TB. It discards messages about the plugin's use of descriptors.
func (b *cleanupTB) Logf(string, ...any) {}

// Cleanup implements testing.TB.
func (b *cleanupTB) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

func (b *cleanupTB) clean() {
	for _, f := range slices.Backward(b.cleanups) {
		f()
	}
	b.cleanups = nil
}

// storeSecret stores a secret and returns its handle.
func (h *host) storeSecret(name, value string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	handle := "kit-" + name
	h.mu.secrets[handle] = value
	return handle
}

func (h *host) secretValues() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.mu.secrets))
}

// Ask implements HostService.
func (h *host) Ask(context.Context, *gantryv1.AskRequest) (*gantryv1.AskResponse, error) {
	h.use("ask", "Ask")
	return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED}, nil
}

// Redirect implements HostService. No browser comes to the address, because Ask declines.
func (h *host) Redirect(context.Context, *gantryv1.RedirectRequest) (*gantryv1.RedirectResponse, error) {
	h.use("ask", "Redirect")
	return &gantryv1.RedirectResponse{Id: "kit", RedirectUri: "http://127.0.0.1:9/callback/kit"}, nil
}

// CallTool implements HostService. There are no other tools.
func (h *host) CallTool(_ context.Context, r *gantryv1.CallToolRequest) (*gantryv1.CallToolResponse, error) {
	h.use("call-tools", "CallTool")
	h.change("CallTool")
	return &gantryv1.CallToolResponse{Result: &gantryv1.CallResult{IsError: true, Parts: []*gantryv1.ResultPart{{
		Content: &gantryv1.ResultPart_Text{Text: &gantryv1.TextPart{Text: "unsupported call: " + r.GetTool()}},
	}}}}, nil
}

// ListTools implements HostService.
func (h *host) ListTools(context.Context, *gantryv1.ListToolsRequest) (*gantryv1.ListToolsResponse, error) {
	h.use("call-tools", "ListTools")
	return &gantryv1.ListToolsResponse{}, nil
}

// Sample implements HostService. There is no model.
func (h *host) Sample(context.Context, *gantryv1.SampleRequest) (*gantryv1.SampleResponse, error) {
	h.use("sample", "Sample")
	return nil, status.Error(codes.Unavailable, "the conformance kit has no model")
}

// Secret implements HostService.
func (h *host) Secret(_ context.Context, r *gantryv1.SecretRequest) (*gantryv1.SecretResponse, error) {
	h.use("secrets", "Secret")
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.mu.secrets[r.GetHandle()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such secret")
	}
	return &gantryv1.SecretResponse{Value: v}, nil
}

func stateKey(scope gantryv1.StateScope, thread, key string) string {
	if scope != gantryv1.StateScope_STATE_SCOPE_THREAD {
		thread = ""
	}
	return thread + "\x00" + key
}

// GetState implements HostService.
func (h *host) GetState(_ context.Context, r *gantryv1.GetStateRequest) (*gantryv1.GetStateResponse, error) {
	h.use("state", "GetState")
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.mu.state[stateKey(r.GetScope(), r.GetThreadId(), r.GetKey())]
	return &gantryv1.GetStateResponse{Found: ok, Value: e.value, Version: e.version}, nil
}

// PutState implements HostService.
func (h *host) PutState(_ context.Context, r *gantryv1.PutStateRequest) (*gantryv1.PutStateResponse, error) {
	h.use("state", "PutState")
	h.change("PutState")
	h.mu.Lock()
	defer h.mu.Unlock()
	key := stateKey(r.GetScope(), r.GetThreadId(), r.GetKey())
	e := h.mu.state[key]
	if r.IfVersion != nil && r.GetIfVersion() != e.version {
		return &gantryv1.PutStateResponse{Version: e.version}, nil
	}
	if r.GetDelete() {
		delete(h.mu.state, key)
		return &gantryv1.PutStateResponse{Stored: true}, nil
	}
	e = entry{value: r.GetValue(), version: e.version + 1}
	h.mu.state[key] = e
	return &gantryv1.PutStateResponse{Stored: true, Version: e.version}, nil
}

// ListState implements HostService.
func (h *host) ListState(_ context.Context, r *gantryv1.ListStateRequest) (*gantryv1.ListStateResponse, error) {
	h.use("state", "ListState")
	h.mu.Lock()
	defer h.mu.Unlock()
	resp := &gantryv1.ListStateResponse{}
	prefix := stateKey(r.GetScope(), r.GetThreadId(), "")
	for _, key := range slices.Sorted(maps.Keys(h.mu.state)) {
		if name, ok := strings.CutPrefix(key, prefix); ok && strings.HasPrefix(name, r.GetPrefix()) {
			resp.Keys = append(resp.Keys, name)
		}
	}
	return resp, nil
}

// Lease implements HostService.
func (h *host) Lease(r *gantryv1.LeaseRequest, stream grpc.ServerStreamingServer[gantryv1.LeaseResponse]) error {
	h.use("state", "Lease")
	h.mu.Lock()
	busy := h.mu.held[r.GetName()]
	if !busy {
		h.mu.held[r.GetName()] = true
		h.mu.fence++
	}
	fence := h.mu.fence
	h.mu.Unlock()
	if busy {
		return stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Busy{Busy: "another process"}})
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.mu.held, r.GetName())
	}()
	if err := stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Granted{Granted: fence}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Emit implements HostService.
func (h *host) Emit(context.Context, *gantryv1.EmitRequest) (*gantryv1.EmitResponse, error) {
	h.change("Emit")
	return &gantryv1.EmitResponse{}, nil
}

// configuration returns the request that a host would send for the configuration of the kit.
func (k *kit) configuration() *gantryv1.ConfigureRequest {
	return k.configurationWith(k.block())
}

func (k *kit) configurationWith(block map[string]json.RawMessage) *gantryv1.ConfigureRequest {
	data, err := json.Marshal(block)
	if err != nil {
		panic("plugintest: marshal valid JSON: " + err.Error())
	}
	facts := k.host.Facts()
	if k.manifest == nil || !slices.Contains(k.manifest.Capabilities, capabilityNetwork) {
		facts.EgressSocket = ""
	}
	facts.Version, facts.ContractVersion = "0.0.0-plugintest", contract.Version
	facts.Limits = &gantryv1.Limits{MaxMessageBytes: 16 << 20, MaxInlineBytes: 1 << 20, MaxOutputBytes: 8 << 20}
	facts.Capabilities = []string{"descriptors", "services", "an-unknown-capability"}
	return &gantryv1.ConfigureRequest{
		ConfigJson: data, DataDir: k.data, CacheDir: k.cache, Generation: 1, Label: "kit", Host: facts,
	}
}
