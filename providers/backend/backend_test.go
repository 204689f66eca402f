package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parrot is a protocol that says what it was asked, for tests.
type parrot struct{}

func (parrot) ID() string                    { return "parrot" }
func (parrot) Framing() protocol.Framing     { return protocol.FramingNDJSON }
func (parrot) Path(*protocol.Request) string { return "/say" }
func (parrot) Decode(r *protocol.Request) protocol.Decoder {
	return &parrotDecoder{life: protocol.Lifecycle{Namespace: r.Namespace}}
}

func (parrot) Body(r *protocol.Request) ([]byte, error) {
	texts := []string{}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				texts = append(texts, p.Text)
			case *llm.Media:
				texts = append(texts, string(p.Data))
			case *llm.ToolResult:
				texts = append(texts, string(p.Content[0].(*llm.Media).Data))
			}
		}
	}
	return json.Marshal(map[string]any{
		"model": r.Model.ID, "system": r.System, "texts": texts, "temperature": protocol.Normalised(r).Generation.Temperature, "always": r.Model.AlwaysThinks,
		"options": r.ProviderOptions[r.Namespace], "freeform": r.Model.Freeform, "max": r.Model.MaxOutputTokens,
	})
}

type parrotDecoder struct{ life protocol.Lifecycle }

func (d *parrotDecoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	dst = d.life.Delta(dst, llm.BlockText, "0", string(f.Data))
	return d.life.Finish(dst, llm.StepFinish{Reason: llm.FinishStop}, nil), nil
}

func (d *parrotDecoder) End(dst []llm.Event) ([]llm.Event, error) {
	if !d.Done() {
		return dst, protocol.Incomplete()
	}
	return dst, nil
}

func (d *parrotDecoder) Done() bool { return d.life.Finished() }

func newTestService(t *testing.T, v Vendor, hcl string) (*service, error) {
	t.Helper()
	cfg := &Config{}
	if ds := configblock.Decode([]byte(hcl), cfg); len(ds) > 0 {
		t.Fatalf("config: %+v", ds)
	}
	v.Protocol = parrot{}
	if v.Namespace == "" {
		v.Namespace = "acme"
	}
	if v.BaseURL == "" {
		v.BaseURL = "https://api.example.com/v1"
	}
	v.Name, v.KeyVariable = "Acme", "ACME_API_KEY"
	s, err := newService(t.Context(), v, cfg, "1.0.0", provider.Env{
		Host: &provider.Host{}, Logger: hclog.NewNullLogger(), CacheDir: t.TempDir(), Config: cfg,
	})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func prepared(t *testing.T, s *service, r *llm.Request) map[string]any {
	t.Helper()
	p, err := s.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(p.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestConfigIsChecked(t *testing.T) {
	for hcl, want := range map[string]string{
		`{"retries": -1}`:                                "retries must be",
		`{"retries": 100}`:                               "retries must be",
		`{"body": [1]}`:                                  "must be an object",
		`{"options": "x"}`:                               "must be an object",
		`{"compatibility": {"made_up": true}}`:           `unknown key "made_up"`,
		`{"model": [{"id": "a"}, {"id": "a"}]}`:          "described twice",
		`{"model": [{"id": "a", "context_window": -1}]}`: "negative",
		`{"model": [{"id": "a", "compatibility": {"no_imagez":true}}]}`: `did you mean "no_images"?`,
		`{"base_url": "api.example.com"}`:                               "base_url",
		`{"headers": {"a b": "x"}}`:                                     "header",
	} {
		_, err := newTestService(t, Vendor{}, hcl)
		d, ok := errors.AsType[*contract.Diagnostic](err)
		if !ok || !strings.Contains(d.Summary, want) {
			t.Errorf("%s: %v, want %q", hcl, err, want)
		}
	}
}

func TestWhatIsKnownOfAModel(t *testing.T) {
	s, err := newTestService(t, Vendor{Catalog: "openai", API: "responses", Hosted: func(m catalog.Model) []llm.HostedTool {
		return []llm.HostedTool{{Kind: "web_search"}}
	}}, `{"model": [{"id": "gpt-5.4", "context_window": 1000, "freeform": false, "tool_traits": ["edits"], "prices": {"input": 1}},
		{"id": "mine", "max_output_tokens": 77, "input": ["text"], "efforts": ["low"], "tools": false}]}`)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := s.Models(t.Context())
	if err != nil || len(listed) < 20 || !slices.ContainsFunc(listed, func(r llm.ModelRow) bool { return r.ID == "mine" }) {
		t.Errorf("models: %d, %v", len(listed), err)
	}
	own := s.look("gpt-5.4").row
	if own.ContextWindow != 1000 || !slices.Equal(own.ToolTraits, []string{"edits"}) || slices.Contains(own.ToolKinds, "freeform") || *own.Prices.Input != 1 || own.Fallback {
		t.Errorf("the user's words: %+v", own)
	}
	dated := s.look("gpt-5.5-2026-05-05").row
	if dated.ID != "gpt-5.5-2026-05-05" || dated.Fallback || dated.ContextWindow < 100_000 || !slices.Contains(dated.ToolKinds, "freeform") ||
		len(dated.HostedTools) != 1 || dated.MetadataNamespace != "acme" {
		t.Errorf("a dated model: %+v", dated)
	}
	mine := s.look("mine")
	if !mine.row.Fallback || mine.row.MaxOutputTokens != 77 || mine.protocol.MaxOutputTokens != 77 || len(mine.row.ToolKinds) != 0 ||
		mine.protocol.Takes("image") || !mine.protocol.Reasons {
		t.Errorf("a model of the user's: %+v", mine)
	}
	unknown := s.look("who-is-this").row
	if !unknown.Fallback || unknown.ContextWindow != fallbackWindow || unknown.TruncationMode != "bytes" {
		t.Errorf("an unknown model: %+v", unknown)
	}
}

// What the user says of a window counts as far as the model is known to take as much. What is only assumed, or known of a
// model whose name resembles it, holds nobody.
// Whether a model looks for tools itself is the vendor's to say, or the user's; both sides of what is known agree on it.
func TestModelsThatSearchForTools(t *testing.T) {
	for _, tc := range []struct {
		name, api, hcl string
		want           bool
	}{
		{"as the vendor says", "responses", `{}`, true},
		{"as the user says", "responses", `{"model": [{"id": "gpt-5.4", "tool_search": false}]}`, false},
		{"as the user says of any model", "responses", `{"model": [{"id": "own", "tool_search": true}]}`, true},
		{"in a format that has no such thing", "chat-completions", `{"model": [{"id": "own", "tool_search": true}]}`, false},
	} {
		s, err := newTestService(t, Vendor{API: tc.api, Catalog: "openai", Searches: func(m catalog.Model) bool { return m.ID == "gpt-5.4" }}, tc.hcl)
		if err != nil {
			t.Fatal(err)
		}
		id := "gpt-5.4"
		if strings.Contains(tc.hcl, "own") {
			id = "own"
		}
		k := s.look(id)
		if has := slices.Contains(k.row.ToolKinds, "search"); has != tc.want || k.protocol.Search != tc.want {
			t.Errorf("%s: %v and %v, want %v", tc.name, has, k.protocol.Search, tc.want)
		}
	}
}

func TestTheWindowIsHeldToTheLargest(t *testing.T) {
	s, err := newTestService(t, Vendor{
		Catalog: "openai", API: "responses",
		Probe: func(_ context.Context, model string) (Facts, error) {
			if model != "loaded" && model != "wide" {
				return Facts{}, errors.New("no")
			}
			return Facts{Window: 65_536}, nil
		},
	}, `{"model": [{"id": "gpt-5", "context_window": 400000}, {"id": "gpt-5-mini", "context_window": 400000, "max_context_window": 300000},
		{"id": "gpt-5-nano", "max_context_window": 50000}, {"id": "gpt-5.1", "context_window": 100000}, {"id": "gpt-5.2-2026-12-11", "context_window": 400000},
		{"id": "mine", "context_window": 400000}, {"id": "loaded", "context_window": 100000}, {"id": "wide", "context_window": 100000, "max_context_window": 131072}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]struct {
		window, most int64
		from         llm.WindowSource
		told         bool
	}{
		"gpt-5":              {272_000, 272_000, llm.WindowConfig, true},
		"gpt-5-mini":         {300_000, 300_000, llm.WindowConfig, true},
		"gpt-5-nano":         {50_000, 50_000, llm.WindowCatalog, false},
		"gpt-5.1":            {100_000, 272_000, llm.WindowConfig, false},
		"gpt-5.2":            {272_000, 272_000, llm.WindowCatalog, false},
		"gpt-5.2-2026-12-11": {400_000, 0, llm.WindowConfig, false},
		"gpt-5.2-2027-01-01": {272_000, 0, llm.WindowCatalog, false},
		"mine":               {400_000, 0, llm.WindowConfig, false},
		"unheard-of":         {fallbackWindow, 0, llm.WindowAssumed, false},
		"loaded":             {65_536, 65_536, llm.WindowConfig, true},
		"wide":               {100_000, 131_072, llm.WindowConfig, false},
	} {
		row, _, err := s.Find(t.Context(), model)
		if err != nil || row.ContextWindow != want.window || row.MaxContextWindow != want.most || row.ContextWindowSource != want.from {
			t.Errorf("%s: window %d of at most %d from %q, %v; want %d of %d from %q", model, row.ContextWindow, row.MaxContextWindow, row.ContextWindowSource, err,
				want.window, want.most, want.from)
		}
		if told := strings.Join(row.Notes, "; "); strings.Contains(told, "max_context_window") != want.told || !want.told && told != "" {
			t.Errorf("%s: people are told %q", model, told)
		}
	}
}

func TestTheServiceKnowsBetter(t *testing.T) {
	var asked atomic.Int32
	s, err := newTestService(t, Vendor{
		Probe: func(_ context.Context, model string) (Facts, error) {
			asked.Add(1)
			if model == "silent" {
				return Facts{}, errors.New("no")
			}
			return Facts{Window: 4096, NoTools: true, Model: &protocol.Model{Input: []string{"image"}}, Warning: "it is small"}, nil
		},
		List: func(context.Context) ([]string, error) { return []string{"local"}, nil },
	}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if row, ok, err := s.Find(t.Context(), "local"); err != nil || !ok || row.ContextWindow != 4096 || row.MaxContextWindow != 4096 || row.ContextWindowSource != llm.WindowService ||
			row.Fallback || len(row.ToolKinds) != 0 || len(row.InputModalities) != 2 || !slices.Equal(row.Notes, []string{"it is small"}) {
			t.Errorf("found %+v, %v, %v", row, ok, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	if row, ok, err := s.Find(t.Context(), "silent"); err != nil || !ok || row.ContextWindow != fallbackWindow || !row.Fallback {
		t.Errorf("found %+v, %v, %v", row, ok, err)
	}
	if rows, err := s.Models(t.Context()); err != nil || len(rows) != 1 || rows[0].ID != "local" || rows[0].ContextWindow != 4096 {
		t.Errorf("rows %+v, %v", rows, err)
	}
}

func TestRequest(t *testing.T) {
	s, err := newTestService(t, Vendor{Catalog: "anthropic"}, `{"api_key": "key-123456", "body": {"extra": {"a": 1}}, "options": {"x": {"y": 1, "z": 1}},
		"headers": {"X-Team": "blue", "X-Empty": " "}, "query": {"v": "2"}}`)
	if err != nil {
		t.Fatal(err)
	}
	warm := 0.5
	r := &llm.Request{
		Model: "claude-opus-4-8", System: []string{"base"}, Generation: llm.Generation{Temperature: &warm},
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: "rules"}}}, {Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}},
			{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: "later"}}},
		},
		ProviderOptions: map[string]json.RawMessage{"acme": json.RawMessage(`{"x":{"z":2}}`)},
	}
	p, err := s.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.URL != "https://api.example.com/v1/say?v=2" {
		t.Errorf("address %s", p.URL)
	}
	heads := map[string]string{}
	for _, h := range p.Headers {
		heads[h.Name] = h.Value
	}
	if heads["X-Team"] != "blue" || heads["X-Empty"] != "" || strings.Contains(fmt.Sprint(heads), "key-123456") || heads["User-Agent"] != "gantry/1.0.0" {
		t.Errorf("headers %v", heads)
	}
	want := `{"always":true,"extra":{"a":1},"freeform":false,"max":128000,"model":"claude-opus-4-8","options":{"x":{"y":1,"z":2}},"system":["base","rules","later"],"temperature":null,"texts":["hi"]}`
	var got any
	if err := json.Unmarshal(p.Body, &got); err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(got); string(b) != want {
		t.Errorf("body %s\nwant %s", b, want)
	}
	if len(r.System) != 1 || len(r.Messages) != 3 || r.Generation.Temperature == nil {
		t.Error("the request itself was changed")
	}
	if _, err := s.Prepare(t.Context(), &llm.Request{}); err == nil {
		t.Error("prepared a request without a model")
	}
}

func TestNoKey(t *testing.T) {
	s, err := newTestService(t, Vendor{}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Stream(t.Context(), &provider.StreamRequest{Request: &llm.Request{Model: "m"}, MaxAttempts: 5}, func(llm.Event) error { return nil })
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.ErrAuthentication || !strings.Contains(e.Next, "ACME_API_KEY") || e.Retryable {
		t.Errorf("error %+v", err)
	}
	for name, hcl := range map[string]string{"keyless": `{}`, "own address": `{"base_url": "http://127.0.0.1:9/v1"}`} {
		s, err := newTestService(t, Vendor{Keyless: name == "keyless"}, hcl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prepare(t.Context(), &llm.Request{Model: "m"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMediaByReference(t *testing.T) {
	s, err := newTestService(t, Vendor{Keyless: true}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	fetched := 0
	s.media = newMedia(func(_ context.Context, digest string) ([]byte, error) {
		fetched++
		if digest == "gone" {
			return nil, errors.New("no such artifact")
		}
		return []byte("content of " + digest), nil
	})
	history := []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "see"}, &llm.Media{Artifact: "a"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{Content: llm.Parts{&llm.Media{Artifact: "b"}}}}},
		{Role: llm.RoleUser, Parts: []llm.Part{&llm.Media{Data: []byte("inline")}}},
	}
	for range 2 {
		if got := fmt.Sprint(prepared(t, s, &llm.Request{Model: "m", Messages: history})["texts"]); got != "[see content of a content of b inline]" {
			t.Errorf("texts %s", got)
		}
	}
	if fetched != 2 {
		t.Errorf("fetched %d times", fetched)
	}
	if history[0].Parts[1].(*llm.Media).Artifact != "a" {
		t.Error("the history itself was changed")
	}
	_, err = s.Prepare(t.Context(), &llm.Request{Model: "m", Messages: []llm.Message{{Parts: []llm.Part{&llm.Media{Artifact: "gone"}}}}})
	if err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("error %v", err)
	}
}

func TestMediaIsBounded(t *testing.T) {
	m := newMedia(func(_ context.Context, digest string) ([]byte, error) { return make([]byte, keptMedia/4+1), nil })
	for i := range 10 {
		if _, err := m.get(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if m.size > keptMedia || len(m.kept) != 3 || len(m.order) != 3 {
		t.Errorf("keeps %d bytes in %d", m.size, len(m.kept))
	}
}

func TestRepair(t *testing.T) {
	var bodies []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 4096)
		n, _ := r.Body.Read(b)
		bodies = append(bodies, string(b[:n]))
		if len(bodies) == 1 {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":{"message":"bad thought"}}`)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, `"ok"`)
	}))
	defer h.Close()
	s, err := newTestService(t, Vendor{Repair: func(r *protocol.Request, e *llm.Error) (*protocol.Request, bool) {
		repaired := *r
		lean := *r.Request
		lean.Messages = nil
		repaired.Request = &lean
		return &repaired, strings.Contains(e.Message, "bad thought")
	}}, fmt.Sprintf(`{"base_url": %q}`, h.URL))
	if err != nil {
		t.Fatal(err)
	}
	var events []llm.Event
	err = s.Stream(t.Context(), &provider.StreamRequest{
		Request:     &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "thought"}}}}},
		MaxAttempts: 5,
	}, func(e llm.Event) error { events = append(events, e); return nil })
	if err != nil || len(bodies) != 2 || strings.Contains(bodies[1], "thought") || len(events) == 0 {
		t.Errorf("%v, bodies %q, %d events", err, bodies, len(events))
	}
}

func TestRefresh(t *testing.T) {
	answer := `{"openai": {"id": "openai", "name": "OpenAI", "models": {"gpt-9": {"id": "gpt-9", "modalities": {"output": ["text"]}, "limit": {"context": 5}}}}}`
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api.json" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer h.Close()
	cfg := &Config{Timeout: time.Second}
	v := Vendor{Name: "OpenAI", Catalog: "openai"}
	dir := t.TempDir()
	if n, err := refresh(t.Context(), v, cfg, dir, h.URL+"/api.json"); err != nil || n != 1 {
		t.Fatalf("%d models, %v", n, err)
	}
	if p := loadCatalog("openai", dir, hclog.NewNullLogger()); len(p.Models) != 1 || p.Models[0].ID != "gpt-9" {
		t.Errorf("catalogue %+v", p)
	}
	answer = "{"
	if _, err := refresh(t.Context(), v, cfg, dir, h.URL+"/api.json"); err == nil {
		t.Error("took what is cut off")
	}
	if _, err := refresh(t.Context(), v, cfg, dir, h.URL+"/other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
	if p := loadCatalog("openai", dir, hclog.NewNullLogger()); len(p.Models) != 1 {
		t.Error("a failed fetch spoiled the catalogue")
	}
	if err := os.WriteFile(catalogPath(dir, "openai"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := loadCatalog("openai", dir, hclog.NewNullLogger()); len(p.Models) < 20 {
		t.Errorf("catalogue %+v", p)
	}
	if _, err := refresh(t.Context(), Vendor{Name: "Own"}, cfg, dir, h.URL); err == nil {
		t.Error("fetched a catalogue for nobody")
	}
}

// Models that reason only if asked to are asked, unless the user says otherwise.
func TestReasoningWithoutBeingAsked(t *testing.T) {
	s, err := newTestService(t, Vendor{Catalog: "anthropic", API: "messages", Effort: func(catalog.Model) string { return "high" }},
		`{"model": [{"id": "claude-opus-4-8", "default_effort": "low"}, {"id": "claude-opus-4-6", "efforts": []}, {"id": "claude-opus-4-7", "efforts": ["low", "medium"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ model, asked, options, want string }{
		{"claude-sonnet-4-5", "", "", "high"},
		{"claude-sonnet-4-6", "", "", "high"},
		{"claude-sonnet-4-6", "none", "", "none"},
		{"claude-sonnet-4-6", "", `{"thinking":{"type":"disabled"}}`, ""},
		{"claude-sonnet-4-6", "", `{"top":1}`, "high"},
		{"claude-opus-4-8", "", "", "low"},
		{"claude-opus-4-6", "", "", ""},
		{"claude-opus-4-7", "", "", "medium"},
		{"claude-3-5-haiku-latest", "", "", ""}, // does not reason, or is not known
		{"who-is-this", "", "", ""},
	} {
		r := &llm.Request{Model: tc.model, ReasoningEffort: tc.asked, ProviderOptions: map[string]json.RawMessage{}}
		if tc.options != "" {
			r.ProviderOptions["acme"] = json.RawMessage(tc.options)
		}
		got, _, err := s.request(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got.ReasoningEffort != tc.want || r.ReasoningEffort != tc.asked {
			t.Errorf("%s, asked for %q with %s: %q, want %q", tc.model, tc.asked, tc.options, got.ReasoningEffort, tc.want)
		}
	}
	if row := s.look("claude-sonnet-4-6").row; row.DefaultReasoningEffort != "high" {
		t.Errorf("row %+v", row)
	}
}
