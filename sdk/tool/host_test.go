//go:build unix

package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// host answers what a plugin asks, and remembers it.
type host struct {
	*processtest.Host
	mu struct {
		sync.Mutex
		emitted []string
		state   map[string]*gantryv1.GetStateResponse
		stored  map[string]string
	}
	lose chan string // ends the lease with a reason
}

func startHost(t *testing.T) *host {
	h := &host{lose: make(chan string, 1)}
	h.mu.state, h.mu.stored = map[string]*gantryv1.GetStateResponse{}, map[string]string{}
	h.Host = processtest.Start(t, processtest.Options{Service: func(p *processtest.Host) gantryv1.HostServiceServer {
		h.Host = p
		return h
	}})
	return h
}

func (h *host) Authorize(_ context.Context, r *gantryv1.AuthorizeRequest) (*gantryv1.AuthorizeResponse, error) {
	switch {
	case r.GetCallToken() != "call-token":
		return nil, status.Error(codes.PermissionDenied, "the token is dead")
	case r.GetEffects()[0].GetNetwork().GetHost() == "good.example":
		return &gantryv1.AuthorizeResponse{Granted: true, Scope: "session"}, nil
	case r.GetReason() == "":
		return &gantryv1.AuthorizeResponse{}, nil
	}
	return &gantryv1.AuthorizeResponse{Denial: "rejected: " + r.GetReason() + strings.Join(r.GetDiscriminators(), "")}, nil
}

func (h *host) Ask(_ context.Context, r *gantryv1.AskRequest) (*gantryv1.AskResponse, error) {
	switch r.GetKind() {
	case gantryv1.AskKind_ASK_KIND_CHOICE:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED, AnswerJson: []byte(`"` + r.GetOptions()[1] + `"`)}, nil
	case gantryv1.AskKind_ASK_KIND_FORM:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED}, nil
	}
	if r.GetRedirectId() != "" || r.GetRedirectPort() != 0 {
		answer := fmt.Sprintf(`{"redirect_uri":"http://127.0.0.1:%d/callback","query":{"code":"c","id":%q,"token":%q}}`, r.GetRedirectPort(), r.GetRedirectId(), r.GetCallToken())
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED, AnswerJson: []byte(answer)}, nil
	}
	return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_CANCELLED}, nil
}

func (h *host) Redirect(_ context.Context, r *gantryv1.RedirectRequest) (*gantryv1.RedirectResponse, error) {
	if r.GetCallToken() != "call-token" {
		return nil, status.Error(codes.PermissionDenied, "the token is dead")
	}
	return &gantryv1.RedirectResponse{Id: "id", RedirectUri: fmt.Sprintf("http://%s:%d%s", r.GetHost(), r.GetPort(), r.GetPath())}, nil
}

func (h *host) CallTool(_ context.Context, r *gantryv1.CallToolRequest) (*gantryv1.CallToolResponse, error) {
	if r.GetTool() == "silent" {
		return &gantryv1.CallToolResponse{}, nil
	}
	text := fmt.Sprintf("%s.%s(%s%s)", r.GetNamespace(), r.GetTool(), r.GetInput().GetArgumentsJson(), r.GetInput().GetText())
	return &gantryv1.CallToolResponse{Result: &gantryv1.CallResult{Parts: []*gantryv1.ResultPart{
		{Content: &gantryv1.ResultPart_Text{Text: &gantryv1.TextPart{Text: text}}},
	}}}, nil
}

func (h *host) ListTools(context.Context, *gantryv1.ListToolsRequest) (*gantryv1.ListToolsResponse, error) {
	return &gantryv1.ListToolsResponse{Tools: []*gantryv1.ToolDescriptor{{Name: "other"}}}, nil
}

func (h *host) Sample(_ context.Context, r *gantryv1.SampleRequest) (*gantryv1.SampleResponse, error) {
	if r.GetRequest().GetModel() == "broken" {
		return &gantryv1.SampleResponse{Error: &gantryv1.LlmError{Message: "out of budget"}}, nil
	}
	return &gantryv1.SampleResponse{
		Message: &gantryv1.LlmMessage{Parts: []*gantryv1.LlmPart{{Part: &gantryv1.LlmPart_Text{Text: &gantryv1.LlmText{Text: "yes"}}}}},
	}, nil
}

func (h *host) Secret(_ context.Context, r *gantryv1.SecretRequest) (*gantryv1.SecretResponse, error) {
	if name, ok := strings.CutPrefix(r.GetHandle(), "stored:"); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		if v := h.mu.stored[name]; v != "" {
			return &gantryv1.SecretResponse{Value: v}, nil
		}
		return nil, status.Error(codes.NotFound, "no such secret")
	}
	if r.GetHandle() != "h-1" {
		return nil, status.Error(codes.PermissionDenied, "not yours")
	}
	return &gantryv1.SecretResponse{Value: "s3cret"}, nil
}

func (h *host) StoreSecret(_ context.Context, r *gantryv1.StoreSecretRequest) (*gantryv1.StoreSecretResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.stored[r.GetName()] = r.GetValue()
	return &gantryv1.StoreSecretResponse{}, nil
}

func (h *host) Emit(_ context.Context, r *gantryv1.EmitRequest) (*gantryv1.EmitResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.emitted = append(h.mu.emitted, fmt.Sprintf("%s %s %s %v", r.GetToken(), r.GetKind(), r.GetPayloadJson(), r.GetDurable()))
	return &gantryv1.EmitResponse{}, nil
}

func (h *host) GetState(_ context.Context, r *gantryv1.GetStateRequest) (*gantryv1.GetStateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.mu.state[r.GetThreadId()+"/"+r.GetKey()]; s != nil {
		return s, nil
	}
	return &gantryv1.GetStateResponse{}, nil
}

func (h *host) PutState(_ context.Context, r *gantryv1.PutStateRequest) (*gantryv1.PutStateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := r.GetThreadId() + "/" + r.GetKey()
	old := h.mu.state[key]
	switch {
	case r.IfVersion != nil && r.GetIfVersion() != old.GetVersion():
		return &gantryv1.PutStateResponse{Version: old.GetVersion()}, nil
	case r.GetDelete():
		delete(h.mu.state, key)
		return &gantryv1.PutStateResponse{Stored: true}, nil
	}
	h.mu.state[key] = &gantryv1.GetStateResponse{Found: true, Value: r.GetValue(), Version: old.GetVersion() + 1}
	return &gantryv1.PutStateResponse{Stored: true, Version: old.GetVersion() + 1}, nil
}

func (h *host) ListState(_ context.Context, r *gantryv1.ListStateRequest) (*gantryv1.ListStateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	resp := &gantryv1.ListStateResponse{}
	for k := range h.mu.state {
		if rest, ok := strings.CutPrefix(k, r.GetThreadId()+"/"); ok && strings.HasPrefix(rest, r.GetPrefix()) {
			resp.Keys = append(resp.Keys, rest)
		}
	}
	slices.Sort(resp.Keys)
	return resp, nil
}

func (h *host) Lease(r *gantryv1.LeaseRequest, stream gantryv1.HostService_LeaseServer) error {
	switch r.GetName() {
	case "busy":
		return stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Busy{Busy: "somebody"}})
	case "endless":
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	if err := stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Granted{Granted: 7}}); err != nil {
		return err
	}
	select {
	case why := <-h.lose:
		return stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Lost{Lost: why}})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// within runs f inside a call of a plugin that this host serves.
func (h *host) within(t *testing.T, f func(ctx context.Context, c *tool.Call) error) string {
	t.Helper()
	p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		return nil, f(ctx, c)
	})}, h.Facts(), "{}")
	_, all := p.run(t, &gantryv1.CallStart{Tool: "try", CallToken: "call-token"})
	return shape(all)
}

func TestCommandRunsThroughTheHost(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		cmd := c.Command(ctx, "sh", "-c", "echo hello; echo world >&2")
		cmd.Stdout, cmd.MergeStderr = c.OutputWriter(), true
		return cmd.Run()
	})
	if want := `started | output@0 "hello\nworld\n" | result `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := h.Spawned()[0]; r.GetCallToken() != "call-token" || r.GetReadOnly() {
		t.Errorf("spawn request %v", r)
	}
}

// A declared process is named; everything that it is comes from the configuration.
func TestDeclaredProcess(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	h.Declare("server.echo", &gantryv1.SpawnRequest{Argv: []string{"sh", "-c", `read x; echo "$x $KEY"`}, Env: map[string]string{"KEY": "k"}})
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		cmd := c.Env().Declared(ctx, "server.echo")
		cmd.Stdin, cmd.Stdout = strings.NewReader("hello\n"), c.OutputWriter()
		if err := cmd.Run(); err != nil {
			return err
		}
		if err := c.Env().Declared(ctx, "server.other").Start(); status.Code(errors.Unwrap(err)) != codes.InvalidArgument || !strings.Contains(err.Error(), `start "server.other": `) {
			return fmt.Errorf("an undeclared process: %w", err)
		}
		for name, change := range map[string]func(*process.Cmd){
			"arguments": func(c *process.Cmd) { c.Args = append(c.Args, "-v") }, "program": func(c *process.Cmd) { c.Args[0] = "sh" },
			"folder": func(c *process.Cmd) { c.Dir = "/" }, "variables": func(c *process.Cmd) { c.Env = []string{"A=b"} },
			"session": func(c *process.Cmd) { c.Session = true }, "removed": func(c *process.Cmd) { c.Unset = []string{"KEY"} },
		} {
			cmd := c.Env().Declared(ctx, "server.echo")
			change(cmd)
			if err := cmd.Start(); err == nil {
				return fmt.Errorf("started with its own %s", name)
			}
		}
		return nil
	})
	if want := `started | output@0 "hello k\n" | result `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := h.Spawned(); len(r) != 2 || r[0].GetDeclared() != "server.echo" || r[0].GetCallToken() != "" || len(r[0].GetArgv()) != 0 {
		t.Errorf("spawn requests %v", r)
	}
}

func TestCancelKillsTheCommand(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	ready := make(chan struct{})
	p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		cmd := c.Command(ctx, "sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		close(ready)
		return nil, cmd.Wait()
	})}, h.Facts(), "{}")
	c := p.start(t, &gantryv1.CallStart{Tool: "try"})
	<-ready
	c.cancel("interrupted", 30_000)
	all, err := c.rest()
	if r := all[len(all)-1].GetResult(); err != nil || !r.GetAborted() || !strings.Contains(resultShape(r), "call cancelled: interrupted: signal: killed") {
		t.Errorf("%s, %v", shape(all), err)
	}
}

func TestAssessSpawnsReadOnlyHelpers(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	p := configured(t, tool.Plugin{Tools: one("try", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return nil, nil },
		tool.Assess(func(ctx context.Context, c *tool.AssessCall, _ struct{}) (*contract.Assessment, error) {
			out, err := c.Command(ctx, "echo", "-n", "x").Output()
			return &contract.Assessment{Summary: string(out)}, err
		}))}, h.Facts(), "{}")
	r, err := p.Assess(t.Context(), &gantryv1.AssessRequest{Tool: "try", CallToken: "assess-token", Input: arguments("{}")})
	if err != nil || r.GetSummary() != "x" {
		t.Errorf("assessment %v, %v", r, err)
	}
	if s := h.Spawned()[0]; !s.GetReadOnly() || s.GetCallToken() != "assess-token" {
		t.Errorf("spawn request %v", s)
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		ref, err := c.Artifact(ctx, "big.bin", "application/octet-stream", bytes.NewReader(big))
		if err != nil || ref.SizeBytes != int64(len(big)) {
			return fmt.Errorf("put: %+v, %w", ref, err)
		}
		empty, err := c.Artifact(ctx, "empty", "text/plain", strings.NewReader(""))
		if err != nil || empty.SizeBytes != 0 || empty.Name != "empty" {
			return fmt.Errorf("put empty: %+v, %w", empty, err)
		}
		for sha, want := range map[string][]byte{ref.SHA256: big, empty.SHA256: {}} {
			r, err := c.Env().GetArtifact(ctx, sha)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(r)
			if cerr := r.Close(); err != nil || cerr != nil || !bytes.Equal(data, want) {
				return fmt.Errorf("get: %d bytes, %w, %w", len(data), err, cerr)
			}
		}
		if _, err := c.Env().GetArtifact(ctx, "nothing"); status.Code(err) != codes.NotFound {
			return fmt.Errorf("get what is not there: %w", err)
		}
		if _, err := c.Artifact(ctx, "broken", "", io.MultiReader(strings.NewReader("x"), brokenReader{})); !errors.Is(err, errBroken) {
			return fmt.Errorf("put what can't be read: %w", err)
		}
		return nil
	})
	if want := `started | artifact big.bin | artifact empty | result `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestLargeResultsAreStored(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	text := strings.Repeat("0123456789", 200_000)
	p := configured(t, tool.Plugin{Tools: one("try", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return tool.Text(text), nil })}, h.Facts(), "{}")
	r, _ := p.run(t, &gantryv1.CallStart{Tool: "try"})
	if len(r.GetParts()) != 2 || len(r.GetParts()[0].GetText().GetText()) > 1<<20 {
		t.Fatalf("%d parts", len(r.GetParts()))
	}
	if a, ok := h.Artifact(r.GetParts()[1].GetArtifact().GetSha256()); !ok || string(a.Data) != text {
		t.Errorf("artifact of %d bytes, %v", len(a.Data), ok)
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	for _, tc := range []struct {
		a    tool.Authorization
		want string
	}{
		{tool.Authorization{Effects: []contract.Effect{contract.NetworkEffect{Host: "good.example"}}}, "started | result "},
		{tool.Authorization{Effects: []contract.Effect{contract.NetworkEffect{Host: "bad.example"}}}, "started | result not allowed (error)"},
		{tool.Authorization{Effects: []contract.Effect{contract.OtherEffect{Label: "x"}}, Reason: "why", Discriminators: []string{"!"}}, "started | result rejected: why! (error)"},
	} {
		got := h.within(t, func(ctx context.Context, c *tool.Call) error {
			err := c.AuthorizeWith(ctx, tc.a)
			if _, ok := errors.AsType[*tool.DeniedError](err); err != nil && !ok {
				return fmt.Errorf("another error: %w", err)
			}
			return err
		})
		if got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		return nil, c.Authorize(ctx, contract.NetworkEffect{Host: "good.example"})
	})}, h.Facts(), "{}")
	r, _ := p.run(t, &gantryv1.CallStart{Tool: "try", CallToken: "foreign"})
	if !strings.Contains(resultShape(r), "the token is dead") {
		t.Errorf("result %v", r)
	}
}

func TestRequestsToTheHost(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		var errs []error
		check := func(what string, got any, err error, want string) {
			if s := fmt.Sprint(got); err != nil || s != want {
				errs = append(errs, fmt.Errorf("%s: %s, %w", what, s, err))
			}
		}
		a, err := c.Ask(ctx, tool.Question{Options: []string{"a", "b"}})
		check("choice", string(a.JSON), err, `"b"`)
		a, err = c.Ask(ctx, tool.Question{FormSchema: json.RawMessage(`{}`)})
		check("form", a.Declined, err, "true")
		a, err = c.Ask(ctx, tool.Question{URL: "https://example.com", Redirect: true})
		check("url", a.Cancelled, err, "true")
		if _, err := c.Ask(ctx, tool.Question{Title: "?"}); err == nil {
			errs = append(errs, errors.New("a question without a kind"))
		}
		text := func(r *tool.Result, err error) (string, error) {
			if err != nil {
				return "", err
			}
			return r.Parts[0].(*tool.TextPart).Text, nil
		}
		s, err := text(c.CallTool(ctx, "ns", "other", map[string]int{"n": 1}))
		check("call", s, err, `ns.other({"n":1})`)
		s, err = text(c.CallTool(ctx, "", "patch", tool.RawText("raw")))
		check("freeform", s, err, `.patch(raw)`)
		if _, err := c.CallTool(ctx, "", "silent", nil); err == nil {
			errs = append(errs, errors.New("a call without a result"))
		}
		if _, err := c.CallTool(ctx, "", "x", make(chan int)); err == nil {
			errs = append(errs, errors.New("arguments that are no JSON"))
		}
		ds, err := c.ListTools(ctx)
		check("list", len(ds), err, "1")
		m, err := c.Sample(ctx, &llm.Request{Model: "small"})
		if err == nil {
			check("sample", m.Message.Text(), err, "yes")
		}
		errs = append(errs, err)
		if _, err := c.Sample(ctx, &llm.Request{Model: "broken"}); err == nil || err.Error() != "out of budget" {
			errs = append(errs, fmt.Errorf("broken sample: %w", err))
		}
		errs = append(errs, c.Emit(ctx, "page.opened", map[string]string{"url": "x"}, true))
		return errors.Join(errs...)
	})
	if want := "started | result "; got != want {
		t.Errorf("got %s", got)
	}
	if want := []string{`call-token page.opened {"url":"x"} true`}; !slices.Equal(h.mu.emitted, want) {
		t.Errorf("emitted %q", h.mu.emitted)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		s := c.State()
		if _, _, ok, err := s.Get(ctx, "k"); ok || err != nil {
			return fmt.Errorf("get: %v, %w", ok, err)
		}
		v, err := s.PutIf(ctx, "k", []byte("one"), 0)
		if err != nil {
			return err
		}
		if _, err := s.PutIf(ctx, "k", []byte("two"), 0); !errors.Is(err, tool.ErrConflict) {
			return fmt.Errorf("conditional put: %w", err)
		}
		if _, err := s.PutIf(ctx, "k", []byte("three"), v); err != nil {
			return err
		}
		if b, version, ok, err := c.Thread().State().Get(ctx, "k"); !ok || string(b) != "three" || version != 2 || err != nil {
			return fmt.Errorf("get: %s %d %v, %w", b, version, ok, err)
		}
		if _, _, ok, _ := c.Env().State().Get(ctx, "k"); ok {
			return errors.New("the plugin's scope sees the thread's")
		}
		if _, err := c.Env().State().Put(ctx, "key", []byte("x")); err != nil {
			return err
		}
		if keys, err := c.Env().State().List(ctx, "k"); err != nil || !slices.Equal(keys, []string{"key"}) {
			return fmt.Errorf("list: %q, %w", keys, err)
		}
		return s.Delete(ctx, "k")
	})
	if want := "started | result "; got != want {
		t.Errorf("got %s", got)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		e := c.Env()
		l, err := e.Lease(ctx, "profile", time.Second)
		if err != nil || l.Token != 7 {
			return fmt.Errorf("lease: %+v, %w", l, err)
		}
		select {
		case <-l.Lost():
			return errors.New("lost at once")
		default:
		}
		l.Release()
		l.Release()
		<-l.Lost()
		if l, err = e.Lease(ctx, "profile", 0); err != nil {
			return err
		}
		h.lose <- "somebody took it"
		<-l.Lost()
		l.Release()
		_, err = e.Lease(ctx, "busy", 0)
		if busy, ok := errors.AsType[*tool.BusyError](err); !ok || busy.Holder != "somebody" {
			return fmt.Errorf("busy: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := e.Lease(ctx, "endless", time.Hour); err == nil {
			return errors.New("a lease after the end of the waiting")
		}
		return nil
	})
	if want := "started | result "; got != want {
		t.Errorf("got %s", got)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	var cfg struct {
		Key   configblock.Secret            `json:"key"`
		Other configblock.Secret            `json:"other"`
		Env   map[string]configblock.Secret `json:"env"`
	}
	p := configured(t, tool.Plugin{Config: &cfg, Tools: one("try", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
		key, err := cfg.Key.Value(ctx)
		env, err2 := cfg.Env["TOKEN"].Value(ctx)
		_, err3 := cfg.Other.Value(ctx)
		return tool.Text(fmt.Sprint(key, env, cfg.Key, err3)), errors.Join(err, err2)
	})}, h.Facts(), `{"key":{"$secret":"h-1"},"other":{"$secret":"h-2"},"env":{"TOKEN":{"$secret":"h-1"}}}`)
	r, _ := p.run(t, &gantryv1.CallStart{Tool: "try"})
	if got := resultShape(r); !strings.HasPrefix(got, "s3crets3cret(secret) resolve secret: ") || !strings.Contains(got, "not yours") {
		t.Errorf("result %q", got)
	}
}

func TestWithoutHostServices(t *testing.T) {
	t.Parallel()
	p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		_, err := c.Command(ctx, "true").Output()
		_, err2 := c.Artifact(ctx, "", "", strings.NewReader(""))
		_, err3 := c.Sample(ctx, &llm.Request{})
		if err == nil || err2 == nil || err3 == nil || c.Env().Client() != nil {
			return nil, errors.New("services without a host")
		}
		return nil, err
	})}, nil, "{}")
	r, _ := p.run(t, &gantryv1.CallStart{Tool: "try"})
	if got, want := resultShape(r), `start "true": the host offers no services to this plugin (error)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissingHostSocket(t *testing.T) {
	t.Parallel()
	p := serve(t, tool.Plugin{})
	_, err := p.Configure(t.Context(), &gantryv1.ConfigureRequest{Host: &gantryv1.HostFacts{ServicesSocket: "/nowhere/host.sock"}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
}

// talk is what calls and commands can ask the host for.
type talk interface {
	Ask(context.Context, tool.Question) (tool.Answer, error)
	Redirect(context.Context, tool.RedirectAddress) (tool.Redirect, error)
	Env() *tool.Env
}

// login uses all that a login needs, and returns what is wrong with it.
func login(ctx context.Context, c talk, authorize func(contract.NetworkEffect) error) error {
	var errs []error
	check := func(what string, got any, err error, want string) {
		if s := fmt.Sprint(got); err != nil || s != want {
			errs = append(errs, fmt.Errorf("%s: %s, %w", what, s, err))
		}
	}
	to, err := c.Redirect(ctx, tool.RedirectAddress{Port: 7, Host: "localhost", Path: "/x"})
	check("redirect", to, err, "{id http://localhost:7/x}")
	a, err := c.Ask(ctx, tool.Question{URL: "https://example.com", RedirectID: to.ID})
	check("reserved", fmt.Sprintf("%s %v", a.RedirectURI, a.Query), err, "http://127.0.0.1:0/callback map[code:c id:id token:call-token]")
	a, err = c.Ask(ctx, tool.Question{URL: "https://example.com", Redirect: true, RedirectPort: 9})
	check("port", fmt.Sprintf("%s %s", a.RedirectURI, a.Query["id"]), err, "http://127.0.0.1:9/callback ")
	check("host", "", authorize(contract.NetworkEffect{Host: "good.example"}), "")
	if _, denied := errors.AsType[*tool.DeniedError](authorize(contract.NetworkEffect{Host: "bad.example"})); !denied {
		errs = append(errs, errors.New("another host is not denied"))
	}
	e := c.Env()
	check("store", "", e.StoreSecret(ctx, "oauth", "token"), "")
	v, found, err := e.StoredSecret(ctx, "oauth")
	check("stored", fmt.Sprintf("%s %v", v, found), err, "token true")
	check("delete", "", e.DeleteSecret(ctx, "oauth"), "")
	v, found, err = e.StoredSecret(ctx, "oauth")
	check("deleted", fmt.Sprintf("%s %v", v, found), err, " false")
	if err := e.StoreSecret(ctx, "oauth", ""); err == nil {
		errs = append(errs, errors.New("an empty secret is stored"))
	}
	return errors.Join(errs...)
}

// Calls and commands have the same means to log in.
func TestLogin(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		scope, err := c.AuthorizeScope(ctx, tool.Authorization{Effects: []contract.Effect{contract.NetworkEffect{Host: "good.example"}}})
		if scope != tool.ScopeSession || err != nil {
			return fmt.Errorf("scope %q, %w", scope, err)
		}
		return login(ctx, c, func(e contract.NetworkEffect) error { return c.Authorize(ctx, e) })
	})
	if strings.Contains(got, "(error)") {
		t.Errorf("a call: %s", got)
	}
	p := configured(t, tool.Plugin{Commands: []tool.Command{
		tool.NewCommand("login", "Logs in.", func(ctx context.Context, c *tool.CommandCall, _ struct{}) (any, error) {
			return nil, login(ctx, c, func(e contract.NetworkEffect) error { return c.Authorize(ctx, "", e) })
		}, tool.SideEffects()),
	}}, h.Facts(), "{}")
	resp, err := p.Command(t.Context(), &gantryv1.CommandRequest{Name: "login", InputJson: []byte("{}"), CallToken: "call-token"})
	if err != nil || resp.GetError() != "" {
		t.Errorf("a command: %v, %v", resp, err)
	}
}
