package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// declared returns the names of the package's variables that begin with a prefix.
func declared(t *testing.T, file, prefix string) int {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		if v, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) {
			n++
		}
		return true
	})
	return n
}

// The lists are written by hand: a row that is missing in one would not be checked by anything.
func TestListsAreComplete(t *testing.T) {
	for _, tt := range []struct {
		file, prefix string
		listed       int
	}{
		{"table.go", "Method", len(Methods())},
		{"notifications.go", "Notify", len(Notifications())},
		{"requests.go", "Request", len(ServerRequests())},
	} {
		if n := declared(t, tt.file, tt.prefix); n != tt.listed || n == 0 {
			t.Errorf("%s declares %d rows, of which %d are listed", tt.file, n, tt.listed)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Methods() {
		if seen[m.Name] {
			t.Errorf("two rows for %s", m.Name)
		}
		seen[m.Name] = true
	}
	for _, n := range Notifications() {
		if seen[n.Name] {
			t.Errorf("two rows for %s", n.Name)
		}
		seen[n.Name] = true
	}
	for _, r := range ServerRequests() {
		if seen[r.Name] {
			t.Errorf("two rows for %s", r.Name)
		}
		seen[r.Name] = true
	}
}

func TestKeysNameFields(t *testing.T) {
	for _, m := range Methods() {
		if m.Key.Field == "" {
			continue
		}
		f, ok := shapeOf(m.Params).index[m.Key.Field]
		if !ok || f.shape.kind != stringKind && (f.shape.kind != pointerKind || f.shape.element.kind != stringKind) {
			t.Errorf("%s: no text field %q in %v", m.Name, m.Key.Field, m.Params)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		key          Key
		params, want string
	}{
		{Key{}, `{"threadId":"x"}`, ""},
		{Key{Family: "config"}, ``, "config"},
		{byThread(), `{"threadId":"x"}`, "thread:x"},
		{byThread(), `{"a":{"threadId":"y"},"threadId":"\u0078"}`, "thread:x"},
		{byThread(), `{"threadId":7}`, "thread:"},
		{byThread(), `{"threadId"`, "thread:"},
		{byThread(), `[]`, "thread:"},
	} {
		if got := tt.key.Of([]byte(tt.params)); got != tt.want {
			t.Errorf("%+v of %s: %q, want %q", tt.key, tt.params, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	const unsentRows = 7
	table := Table(func(method string) bool { return method != "thread/list" })
	for _, want := range []string{
		"| `thread/start` | `ThreadStartParams` | `ThreadStartResponse` |  |\n",
		"| `turn/start` | `TurnStartParams` | `TurnStartResponse` | the same `threadId` |\n",
		"| `thread/search` (experimental) |", "| config (readers run together) |\n", "| `config/mcpServer/reload` | – |",
		"| `thread/closed` | `ThreadClosedNotification` | all connections |\n",
		"| `item/tool/call` | `DynamicToolCallParams` | `DynamicToolCallResponse` |\n",
		"| the same `processId` of the connection |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in the table", want)
		}
	}
	if strings.Contains(table, "currentTime/read") || strings.Contains(table, "item/plan/delta") {
		t.Error("the table has what is never sent")
	}
	if n := strings.Count(table, "\n"); n != len(Methods())-1+len(Notifications())+len(ServerRequests())-unsentRows+8 {
		t.Errorf("%d lines", n)
	}
}
