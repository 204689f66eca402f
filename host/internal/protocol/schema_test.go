package protocol

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

// schemaSets are the sets of files: stable and experimental. They take long to make.
var schemaSets = [2]func() (map[string][]byte, error){
	sync.OnceValues(func() (map[string][]byte, error) { return jsonSchemas(false) }),
	sync.OnceValues(func() (map[string][]byte, error) { return jsonSchemas(true) }),
}

func schemaFiles(t testing.TB, experimental bool) map[string][]byte {
	i := 0
	if experimental {
		i = 1
	}
	files, err := schemaSets[i]()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// validators returns a function that returns the schema of a type by its name.
func validators(t testing.TB, experimental bool) func(name string) *jsonschema.Resolved {
	files := map[string][]byte{}
	for path, b := range schemaFiles(t, experimental) {
		files[strings.TrimSuffix(filepath.Base(path), ".json")] = b
	}
	resolved := map[string]*jsonschema.Resolved{}
	return func(name string) *jsonschema.Resolved {
		if r := resolved[name]; r != nil {
			return r
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(files[name], &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		resolved[name] = r
		return r
	}
}

func TestSchemasResolve(t *testing.T) {
	schemas := validators(t, true)
	for path := range schemaFiles(t, true) {
		schemas(strings.TrimSuffix(filepath.Base(path), ".json"))
	}
}

func validate(s *jsonschema.Resolved, b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return s.Validate(v)
}

func TestMessagesMatchTheirSchemas(t *testing.T) {
	schemas := validators(t, true)
	rapid.Check(t, func(t *rapid.T) {
		typ, b := drawMessage(t)
		if err := validate(schemas(nameOf(typ)), b); err != nil {
			t.Fatalf("%s: %v\n%s", typ, err, b)
		}
	})
}

// TestSchemasAcceptWhatDecodeAccepts damages valid parameters at a random place.
func TestSchemasAcceptWhatDecodeAccepts(t *testing.T) {
	schemas := validators(t, true)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(Methods()).Draw(t, "method")
		p := reflect.New(m.Params)
		draw(t, p.Elem(), shapeOf(m.Params))
		b, err := Marshal(p.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var v any
		whole := json.NewDecoder(bytes.NewReader(b))
		whole.UseNumber() // a float64 is not exact
		if err := whole.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if b, err = json.Marshal(damage(t, v)); err != nil {
			t.Fatal(err)
		}
		if string(b) == "null" { // no parameters at all
			return
		}
		_, refused := m.Decode(b)
		invalid := validate(schemas(nameOf(m.Params)), b)
		if (refused == nil) != (invalid == nil) {
			t.Fatalf("%s: decode says %v, the schema %v\n%s", m.Name, refused, invalid, b)
		}
	})
}

// damage replaces a part of a value, or removes it.
func damage(t *rapid.T, v any) any {
	if rapid.IntRange(0, 2).Draw(t, "depth") > 0 {
		switch v := v.(type) {
		case map[string]any:
			if len(v) > 0 {
				key := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "key")
				if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
					delete(v, key)
				} else {
					v[key] = damage(t, v[key])
				}
				return v
			}
		case []any:
			if len(v) > 0 {
				i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
				v[i] = damage(t, v[i])
				return v
			}
		}
	}
	return rapid.SampledFrom([]any{
		nil, true, -1, 7, 70_000, 5_000_000_000, 1.5, "", "text", "never", "granular", []any{}, []any{7}, []any{"a"}, map[string]any{},
		map[string]any{"type": "text"}, map[string]any{"never": nil}, map[string]any{"never": map[string]any{}}, map[string]any{"custom": "x"},
	}).Draw(t, "value")
}

func TestSchemasRefuse(t *testing.T) {
	schemas := validators(t, true)
	for _, tt := range []struct{ schema, message string }{
		{"ThreadReadParams", `{"threadId":7}`},
		{"ThreadReadParams", `{}`},
		{"ThreadListParams", `{"limit":4294967296}`},
		{"TurnStartParams", `{"threadId":"x","input":[{"type":"video"}]}`},
		{"ThreadStartParams", `{"approvalPolicy":"sometimes"}`},
		{"ThreadStartParams", `{"approvalPolicy":{"granular":{"sandbox_approval":true,"rules":true,"mcp_elicitations":true},"never":{}}}`},
		{"ItemCompletedNotification", `{"threadId":"x","turnId":"t","completedAtMs":1,"item":{"type":"agentMessage","id":"1"}}`},
		{"ItemCompletedNotification", `{"threadId":"x","turnId":"t","completedAtMs":1,"item":null}`},
		{"CommandExecutionRequestApprovalResponse", `{"decision":"yes"}`},
		{"ClientRequest", `{"id":1,"method":"thread/read"}`},
		{"ClientRequest", `{"id":1.5,"method":"thread/read","params":{"threadId":"x"}}`},
		{"ClientRequest", `{"id":1,"method":"thread/nonsense","params":{}}`},
		{"ServerNotification", `{"method":"thread/closed","params":{}}`},
	} {
		if err := validate(schemas(tt.schema), []byte(tt.message)); err == nil {
			t.Errorf("%s accepts %s", tt.schema, tt.message)
		}
	}
}

func TestSchemasAcceptWholeMessages(t *testing.T) {
	schemas := validators(t, false)
	for _, tt := range []struct{ schema, message string }{
		{"ClientRequest", `{"id":1,"method":"thread/read","params":{"threadId":"x"},"jsonrpc":"2.0"}`},
		{"ClientRequest", `{"id":"a","method":"config/mcpServer/reload"}`},
		{"ThreadListParams", `{"cursor":null,"limit":null,"cwd":null,"sortKey":null,"modelProviders":null,"useStateDbOnly":null}`},
		{"ClientRequest", `{"id":"a","method":"config/mcpServer/reload","params":null}`},
		{"ClientNotification", `{"method":"initialized"}`},
		{"ServerNotification", `{"method":"thread/closed","params":{"threadId":"x"},"emittedAtMs":1,"seq":7}`},
		{"ErrorData", `{"kind":"not_found","next":"start it"}`},
	} {
		if err := validate(schemas(tt.schema), []byte(tt.message)); err != nil {
			t.Errorf("%s refuses %s: %v", tt.schema, tt.message, err)
		}
	}
}

func TestStableSchemasLeaveExperimentalPartsOut(t *testing.T) {
	for experimental, want := range map[bool]bool{false: false, true: true} {
		files := schemaFiles(t, experimental)
		if _, ok := files["v2/ThreadSearchParams.json"]; ok != want {
			t.Errorf("experimental=%t: thread/search is there: %t", experimental, ok)
		}
		for file, part := range map[string]string{
			"v2/ThreadStartParams.json": `"dynamicTools"`, "v2/TurnStartParams.json": `"granular"`, "ServerNotification.json": `thread/settings/updated`,
		} {
			if got := bytes.Contains(files[file], []byte(part)); got != want {
				t.Errorf("experimental=%t: %s contains %s: %t", experimental, file, part, got)
			}
		}
		scripts := typeScript(experimental)
		for file, part := range map[string]string{
			"ThreadStartParams.ts": "dynamicTools", "AskForApproval.ts": "granular", "ServerNotification.ts": "thread/settings/updated", "index.ts": "ThreadSearchParams",
		} {
			if got := bytes.Contains(scripts[file], []byte(part)); got != want {
				t.Errorf("experimental=%t: %s contains %s: %t", experimental, file, part, got)
			}
		}
	}
}

// Clients read the properties of these files.
func TestPlacesOfSchemas(t *testing.T) {
	files := schemaFiles(t, true)
	for file, property := range map[string]string{
		"v1/InitializeParams.json": "clientInfo", "v2/ThreadStartParams.json": "model", "v2/TurnStartParams.json": "input",
		"v2/LoginAccountParams.json": "type", "CommandExecutionRequestApprovalParams.json": "command", "FuzzyFileSearchParams.json": "query",
		"McpServerElicitationRequestParams.json": "mode", SchemaBundle: "ThreadStartParams", "ClientRequest.json": "method",
	} {
		if !bytes.Contains(files[file], []byte(`"`+property+`": `)) {
			t.Errorf("%s does not have %s", file, property)
		}
	}
}

// Two types of one name would share a definition.
func TestDefinitionsHaveOneType(t *testing.T) {
	seen := map[string]reflect.Type{}
	for typ, s := range shapes() {
		if s.name == "" || s.kind == pointerKind {
			continue
		}
		if other, ok := seen[s.name]; ok {
			t.Errorf("%s and %s are both %s", typ, other, s.name)
		}
		seen[s.name] = typ
	}
}

func TestWriteJSONSchema(t *testing.T) { testWrite(t, WriteJSONSchema, SchemaBundle) }
func TestWriteTypeScript(t *testing.T) { testWrite(t, WriteTypeScript, "index.ts") }

func testWrite(t *testing.T, write func(string, bool) error, file string) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "set")
	for range 2 { // into a new folder and into one that exists
		if err := write(dir, true); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	mine := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("a file of another program is gone: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
	if err := write(filepath.Join(mine, "set"), true); err == nil {
		t.Error("no error for a folder below a file")
	}
}

func TestTypeScriptNamesExist(t *testing.T) {
	files := typeScript(true)
	imports := regexp.MustCompile(`from "\./(\w+)"`)
	for name, b := range files {
		for _, m := range imports.FindAllSubmatch(b, -1) {
			if _, ok := files[string(m[1])+".ts"]; !ok {
				t.Errorf("%s imports %s, which does not exist", name, m[1])
			}
		}
		if strings.Contains(string(b), "= ;") {
			t.Errorf("%s has no body:\n%s", name, b)
		}
	}
}

// Clients compile the types, with and without what is experimental. GANTRY_TSC names the compiler; `make test` installs one.
func TestTypeScriptCompiles(t *testing.T) {
	tsc := os.Getenv("GANTRY_TSC")
	if tsc == "" {
		t.Skip("GANTRY_TSC is not set; `make test` sets it")
	}
	const stable = `import type { ClientRequest, ClientResponse, ServerNotification, ServerRequest } from "./index";
const start: ClientRequest = { method: "turn/start", id: 1, params: { threadId: "x", input: [{ type: "text", text: "hi" }], approvalPolicy: "never" } };
const reload: ClientRequest = { method: "config/mcpServer/reload", id: "a" };
export function text(n: ServerNotification): string {
  if (n.method === "item/completed" && n.params.item.type === "agentMessage") return n.params.item.text;
  return n.method === "turn/completed" ? n.params.turn.status : "";
}
export const command = (r: ServerRequest) => (r.method === "item/commandExecution/requestApproval" ? r.params.command : null);
export const result = (r: ClientResponse["turn/start"]): string => r.turn.id;
// @ts-expect-error: no such policy
const wrong: ClientRequest = { method: "turn/start", id: 1, params: { threadId: "x", input: [], approvalPolicy: "sometimes" } };
export const all = [start, reload, wrong];
`
	const search = `import type { ClientRequest } from "./index";
REFUSEDexport const search: ClientRequest = { method: "thread/search", id: 1, params: { searchTerm: "x" } };
`
	for _, experimental := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "ts")
		if err := WriteTypeScript(dir, experimental); err != nil {
			t.Fatal(err)
		}
		refused := "// @ts-expect-error: it is experimental\n"
		if experimental {
			refused = ""
		}
		for name, source := range map[string]string{"client.ts": stable, "experimental.ts": strings.ReplaceAll(search, "REFUSED", refused)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.ts")) // also those that index.ts might not name
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"}
		cmd := exec.CommandContext(t.Context(), tsc, append(args, files...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("experimental=%t: %v\n%s", experimental, err, out)
		}
	}
}
