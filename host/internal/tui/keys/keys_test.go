package keys

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the list of keys into the guide")

// A key has one meaning in each context, and each binding says what it does.
func TestTable(t *testing.T) {
	seen := map[string]Action{}
	for _, b := range Table() {
		if b.Help == "" || len(b.Keys) == 0 {
			t.Errorf("%s lacks help or keys", b.Action)
		}
		for _, k := range b.Keys {
			at := string(b.Context) + " " + k
			if other, ok := seen[at]; ok {
				t.Errorf("%s is %s and %s", at, other, b.Action)
			}
			seen[at] = b.Action
			if got := Find(Table(), b.Context, k); got != b.Action {
				t.Errorf("%s is %s", at, got)
			}
		}
	}
	if got := Find(Table(), Main, "x"); got != "" {
		t.Errorf("x is %s", got)
	}
}

const guide = "../../../../docs/guides/terminal.md"

// The guide lists the keys as the table has them.
func TestGuideListsKeys(t *testing.T) {
	const begin, end = "<!-- keys: written by a test with -update -->\n", "<!-- end of keys -->"
	b, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	listed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the guide has no place for the list of keys")
	}
	var want strings.Builder
	var context Context
	for _, b := range Table() {
		if b.Context != context {
			context = b.Context
			want.WriteString("\n| keys " + string(context) + " | name | |\n| --- | --- | --- |\n")
		}
		var names []string
		for _, k := range b.Keys {
			names = append(names, "`"+Name(k)+"`")
		}
		want.WriteString("| " + strings.Join(names, ", ") + " | `" + b.Setting() + "` | " + b.Help + " |\n")
	}
	want.WriteString("\n")
	if listed == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table; -update writes it", guide)
	}
	if err := os.WriteFile(guide, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
