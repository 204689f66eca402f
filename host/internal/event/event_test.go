package event

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// everyBody is one value of each kind. TestBodiesIsComplete finds the kinds that miss here or in bodies.
func everyBody() []Body {
	return []Body{
		ThreadStarted{}, ThreadNamed{}, ThreadDescribed{}, TurnStarted{}, TurnEnded{}, HistoryAdded{}, HistoryCompacted{}, ItemStarted{}, ItemCompleted{}, ItemDelta{},
		ModelChanged{}, CallDecided{}, CallStarted{}, CallEnded{}, UsageReported{}, StreamRetried{}, QuestionAsked{}, QuestionResolved{}, SessionOpened{},
		SessionOutput{}, SessionExited{}, SessionControlled{}, Notice{}, PluginEvent{}, PluginState{}, SourceChanged{}, ContextUpdated{}, FeatureChanged{}, InputAccepted{}, MailPosted{}, ThreadReverted{}, ThreadForked{}, ThreadArchived{},
		FilesKept{}, FilesChanged{}, TurnDiff{}, SettingsChanged{}, NetworkDecision{}, HookStarted{}, HookCompleted{}, ReviewStarted{}, ReviewEnded{},
	}
}

// declaredKinds reads from the source which types have a method Kind.
func declaredKinds(t *testing.T) map[string]bool {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "Kind" {
				continue
			}
			receiver, ok := fn.Recv.List[0].Type.(*ast.Ident)
			if !ok {
				t.Errorf("%s: a method Kind has a receiver that is not a plain type", f.Name())
				continue
			}
			kinds[receiver.Name] = true
		}
	}
	return kinds
}

func TestBodiesIsComplete(t *testing.T) {
	declared := declaredKinds(t)
	delete(declared, "Unknown") // stands for kinds that are not declared
	if len(declared) < 20 {
		t.Fatalf("found only %d kinds in the source", len(declared))
	}
	tested := map[string]bool{}
	names := map[string]string{}
	for _, b := range everyBody() {
		name := reflect.TypeOf(b).Name()
		tested[name] = true
		if other := names[b.Kind()]; other != "" {
			t.Errorf("%s and %s have the same kind %q", name, other, b.Kind())
		}
		names[b.Kind()] = name
		if _, ok := bodies[b.Kind()]; !ok {
			t.Errorf("bodies has no entry for %s; next: add %s{}.Kind(): decode[%s]", name, name, name)
		}
	}
	for name := range declared {
		if !tested[name] {
			t.Errorf("%s has a Kind and is not in everyBody; next: add it here and to bodies", name)
		}
	}
	if len(bodies) != len(declared) {
		t.Errorf("bodies has %d entries, the source declares %d kinds", len(bodies), len(declared))
	}
}

func TestEveryKindRoundTripsWithEveryFieldSet(t *testing.T) {
	for _, empty := range everyBody() {
		t.Run(empty.Kind(), func(t *testing.T) {
			v := reflect.New(reflect.TypeOf(empty))
			fill(t, v.Elem(), empty.Kind())
			want := Event{
				Seq: 7, Thread: NewThreadID(), Turn: NewTurnID(), Time: time.Date(2026, 7, 1, 12, 30, 0, 123456789, time.UTC),
				Body: v.Elem().Interface().(Body),
			}
			data, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got Event
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("lost something on the way\n got %+v\nwant %+v\njson %s", got, want, data)
			}
			again, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(data) {
				t.Errorf("the second form differs\n got %s\nwant %s", again, data)
			}
		})
	}
}

// fill sets every field below v to something that is not zero, and fails for a type that it does not know how to set.
func fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(`{"raw":[1,"two"]}`)))
		return
	case reflect.TypeFor[[]llm.Part]():
		parts := []llm.Part{&llm.Text{}, &llm.Media{}, &llm.ToolCall{}, &llm.ToolResult{}, &llm.Reasoning{}}
		for _, p := range parts {
			fill(t, reflect.ValueOf(p).Elem(), path)
		}
		v.Set(reflect.ValueOf(parts))
		return
	case reflect.TypeFor[llm.Parts](): // the content of a tool result
		text, media := &llm.Text{}, &llm.Media{}
		fill(t, reflect.ValueOf(text).Elem(), path)
		fill(t, reflect.ValueOf(media).Elem(), path)
		v.Set(reflect.ValueOf(llm.Parts{text, media}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text of " + path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Uint8:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), path)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path)
		fill(t, value, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				t.Errorf("%s.%s is not exported and would not be stored", path, f.Name)
				continue
			}
			fill(t, v.Field(i), path+"."+f.Name)
		}
	default:
		t.Fatalf("%s: fill does not know how to set a %s", path, v.Type())
	}
	if v.IsZero() {
		t.Fatalf("%s: is still zero", path)
	}
}

func TestUnknownKind(t *testing.T) {
	const line = `{"seq":3,"thread":"t","time":"2026-07-01T12:00:00Z","kind":"quantum.entangled","body":{"spin":"up"}}`
	var e Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	if u, ok := e.Body.(Unknown); !ok || u.Name != "quantum.entangled" || string(u.Data) != `{"spin":"up"}` {
		t.Errorf("body = %#v", e.Body)
	}
	if !e.Durable() {
		t.Error("it is not durable, so a copy of the thread would miss it")
	}
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != line {
		t.Errorf("\n got %s\nwant %s", out, line)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	b, err := DecodeBody("thread.named", []byte(`{"name":"n","colour":"green"}`))
	if err != nil {
		t.Fatal(err)
	}
	if b != (ThreadNamed{Name: "n"}) {
		t.Errorf("body = %#v", b)
	}
}

func TestInvalidBody(t *testing.T) {
	if b, err := DecodeBody("thread.named", []byte(`["n"]`)); err == nil || !strings.Contains(err.Error(), "thread.named") {
		t.Errorf("DecodeBody = %v, %v, want an error that names the kind", b, err)
	}
}

func TestTransientKinds(t *testing.T) {
	transient := map[string]bool{"item.delta": true, "session.output": true, "plugin.state": true, "source.changed": true, "turn.diff": true}
	for _, b := range everyBody() {
		if got := (Event{Body: b}).Durable(); got == transient[b.Kind()] {
			t.Errorf("%s: durable = %v", b.Kind(), got)
		}
	}
	if (Event{Body: PluginEvent{Transient: true}}).Durable() {
		t.Error("a plugin's transient event is durable")
	}
}

func TestEffectsOfNamesEveryEffect(t *testing.T) {
	want := []string{"exec", "write", "read", "network", "browser", "session_input", "other"}
	effects := EffectsOf([]contract.Effect{
		contract.ExecEffect{Argv: []string{"true"}, Cwd: "/", ShellText: "true", TTY: true}, contract.WriteEffect{Paths: []string{"/a"}},
		contract.ReadEffect{Paths: []string{"/b"}}, contract.NetworkEffect{Host: "h", Port: 1, Method: "GET"},
		contract.BrowserEffect{Origin: "https://h"}, contract.SessionInputEffect{SessionID: "s", Text: "t"},
		contract.OtherEffect{Label: "l"},
	})
	for i, e := range effects {
		if e.Type != want[i] {
			t.Errorf("effect %d has type %q, want %q", i, e.Type, want[i])
		}
		if !json.Valid(e.Data) || len(e.Data) < 5 {
			t.Errorf("effect %s has data %s", e.Type, e.Data)
		}
	}
}

func TestIDs(t *testing.T) {
	a, b := NewThreadID(), NewThreadID()
	if a >= b {
		t.Errorf("%s does not sort before %s, which was made later", a, b)
	}
	if got, err := ParseThreadID(strings.ToUpper(string(a))); err != nil || got != a {
		t.Errorf("ParseThreadID = %v, %v, want %v", got, err, a)
	}
	if _, err := ParseThreadID("../etc/passwd"); err == nil {
		t.Error("a path is accepted as a thread id")
	}
}
