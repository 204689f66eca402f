package patch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const whole = "*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** Update File: a/old.go\n*** Move to: b.go\n@@ func f\n-x\n+y\n*** End of File\n" +
	"*** Delete File: /abs/gone\n*** End Patch\n"

// show describes changes.
func show(input string) string {
	var out []string
	for _, c := range Changes(input, "/w") {
		kind, _ := json.Marshal(c.Kind)
		out = append(out, fmt.Sprintf("%s %s %q", c.Path, kind, c.Diff))
	}
	return strings.Join(out, "\n")
}

func TestChanges(t *testing.T) {
	t.Parallel()
	want := `/w/new.txt {"type":"add"} "@@ -0,0 +1,2 @@\n+one\n+two\n"
/w/a/old.go {"type":"update","move_path":"/w/b.go"} "@@ func f\n-x\n+y\n"
/abs/gone {"type":"delete"} ""`
	if got := show(whole); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	object, err := json.Marshal(map[string]string{"input": strings.ReplaceAll(whole, "+one", "+\u00f6\"\\")})
	if err != nil {
		t.Fatal(err)
	}
	if got := show(string(object)); got != strings.ReplaceAll(want, "+one", `+ö\"\\`) {
		t.Errorf("in JSON: got\n%s", got)
	}
	for _, none := range []string{"", "{", `{"input":"ls"}`, "ls\n", "*** Begin Patch", "*** Begin Patch\n*** Add File: cut"} {
		if got := show(none); got != "" {
			t.Errorf("%q: %s", none, got)
		}
	}
}

// Each beginning of a patch has the changes of its complete lines, also in JSON where an escape is cut.
func TestChangesGrow(t *testing.T) {
	t.Parallel()
	object, err := json.Marshal(map[string]string{"input": whole})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{whole, string(object)} {
		last, files := 0, 0
		for i := range len(text) {
			changes := Changes(text[:i], "/w")
			size := 0
			for _, c := range changes {
				size += len(c.Diff)
			}
			if len(changes) < files || size < last {
				t.Fatalf("after %q: %d changes with %d bytes, before it %d with %d", text[:i], len(changes), size, files, last)
			}
			last, files = size, len(changes)
		}
		if files != 3 {
			t.Errorf("%d changes", files)
		}
	}
}

func FuzzChanges(f *testing.F) {
	f.Add(whole)
	f.Add(`{"input":"*** Begin Patch\n*** Add File: x\n+\u00`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range Changes(text, "/w") {
			if len(c.Diff) > 2*len(text)+64 {
				t.Errorf("a diff of %d bytes", len(c.Diff))
			}
		}
	})
}
