package attacks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// patches are the rows about the tool that changes files.
var patches = []row{
	{id: "T1", attempt: "a path that leads outside, an absolute one, a hook", required: "asked about; with `never` rejected", codex: "as required", ours: "rejected with `never`, else asked about", flow: func(t *testing.T, w *world) {
		patched(t, w, "never", map[string]string{"dots": "Add File: ../out/x", "absolute": "Add File: " + filepath.Join(w.top, "more", "patches-never-T1", "out", "x"), "hook": "Add File: .git/hooks/x", "nested": "Add File: lib/.git/hooks/x"})
	}, tests: []string{"e2e TestPatchesInTheSandbox"}},
	{id: "T2", attempt: "a path through a symbolic link that leads outside", required: "fails, unless the target is shown", codex: "failed", ours: "rejected with `never`; asked about by the target's path", flow: func(t *testing.T, w *world) {
		patched(t, w, "never", map[string]string{"link": "Add File: link/x", "relative": "Add File: rel/x"})
	}},
	{id: "T3", attempt: "move a file to outside, or over a protected one", required: "asked about", codex: "", ours: "rejected with `never`, else asked about", flow: func(t *testing.T, w *world) {
		patched(t, w, "never", map[string]string{"outside": "Update File: text\n*** Move to: ../out/x", "over": "Update File: text\n*** Move to: .git/config", "through": "Update File: text\n*** Move to: link/file"})
	}},
	{id: "T4", attempt: "a target that is a hard link to outside, a pipe, a device, `/proc/self/mem`", required: "refused", codex: "", ours: "refused", flow: func(t *testing.T, w *world) {
		patched(t, w, "never", map[string]string{"hard": "Update File: hard", "over hard": "Add File: hard", "pipe": "Update File: pipe", "over pipe": "Add File: pipe", "device": "Add File: /dev/null", "memory": "Add File: /proc/self/mem"})
	}},
	{id: "T5", attempt: "replace a folder by a symbolic link between the look and the write", required: "the write does not follow it", codex: "the sandbox catches it; not measured", ours: "the write is made in the sandbox, where the link leads to what can't be written", tries: []try{
		{do: `mkdir swapped && rmdir swapped && ln -s "$OUT" swapped && echo x > swapped/x`, says: readOnly},
	}, tests: []string{"plugins/shell/internal/patch TestApplyRefusesWhatChangedMeanwhile", "e2e TestPatchesInTheSandbox"}},
}

// patched tries patches, each of which must leave everything as it was. What follows Update has a text to be changed.
func patched(t *testing.T, w *world, policy string, headers map[string]string) {
	t.Helper()
	f := newFlow(t, w, "patches-"+policy+"-"+filepath.Base(t.Name()), "workspace-write", policy)
	f.Write("text", "as it was\n")
	for _, p := range []string{"hard"} {
		f.Write(p, "as it was\n")
	}
	if err := unix.Mkfifo(filepath.Join(f.Dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for id, h := range headers {
		body := "+evil"
		if strings.HasPrefix(h, "Update") {
			body = "@@\n-as it was\n+evil"
		}
		f.patch(id, "*** Begin Patch\n*** "+h+"\n"+body+"\n*** End Patch")
	}
	f.patch("works", "*** Begin Patch\n*** Add File: works\n+x\n*** End Patch")
	before := f.world.snapshot(t)
	out := f.run(t)
	if after := f.world.snapshot(t); after != before {
		t.Errorf("what lies outside has CHANGED:\n%s\nwas:\n%s", after, before)
	}
	for id := range headers {
		if strings.Contains(out[id], "Success") {
			t.Errorf("%s: %q", id, out[id])
		}
	}
	if f.Read("works") != "x\n" || f.Read("text") != "as it was\n" {
		t.Errorf("a patch that may be made was not, or one that may not was: %q", out)
	}
	if info, err := os.Lstat(filepath.Join(f.Dir, "pipe")); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe is none any more")
	}
}
