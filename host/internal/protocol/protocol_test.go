package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
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
		{"methods.go", "Method", len(Methods())},
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
		index := fieldByJSON(m.Params, m.Key.Field)
		if index == nil {
			t.Errorf("%s: no field %q in %v", m.Name, m.Key.Field, m.Params)
			continue
		}
		v := reflect.New(m.Params)
		f := v.Elem().FieldByIndex(index)
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		f.SetString("x")
		want := m.Key.Family + ":x"
		if got := m.Key.Of(v.Interface()); got != want {
			t.Errorf("%s: key %q, want %q", m.Name, got, want)
		}
		if got := m.Key.Of(v.Elem().Interface()); got != want {
			t.Errorf("%s: key of a value %q, want %q", m.Name, got, want)
		}
	}
}
