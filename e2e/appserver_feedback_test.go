package e2e_test

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// zipped returns the content of a zip file by name.
func zipped(t *testing.T, path string) map[string]string {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := map[string]string{}
	for _, f := range r.File {
		b, err := fs.ReadFile(r, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(b)
	}
	return out
}

// A report has what the client says, and what it asks for: the log of the thread and files that it may read. It is below gantry's home.
func TestAppServerFeedback(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	r.Write("app.log", "it crashed\n")
	extra := filepath.Join(r.Dir, "app.log")
	var saved struct{ ThreadID, SavedPath string }
	c.Call("feedback/save", object{
		"savePath": "one.zip", "classification": "bug", "reason": "it hangs", "threadId": thread, "includeLogs": true, "extraLogFiles": []string{extra},
		"tags": object{"area": "turns"},
	}, &saved)
	if want := filepath.Join(r.Home, "feedback", "one.zip"); saved.ThreadID != thread || saved.SavedPath != want {
		t.Fatalf("%+v, want %s", saved, want)
	}
	files := zipped(t, saved.SavedPath)
	var report struct {
		Classification, Reason, ThreadID, System string
		Tags                                     map[string]string
		Client                                   struct{ Name string }
		Diagnostics                              struct{ Process struct{ ID int } }
	}
	if err := json.Unmarshal([]byte(files["report.json"]), &report); err != nil || report.Classification != "bug" || report.Reason != "it hangs" ||
		report.ThreadID != thread || report.Tags["area"] != "turns" || report.Client.Name != "test" || report.Diagnostics.Process.ID != c.PID() {
		t.Errorf("%s: %v", files["report.json"], err)
	}
	var kinds []string
	for line := range strings.Lines(files["thread.jsonl"]) {
		var e struct{ Kind string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	if !slices.Contains(kinds, "thread.started") || !slices.Contains(kinds, "turn.ended") {
		t.Errorf("the log has %q", kinds)
	}
	if files["files/1-app.log"] != "it crashed\n" || len(files) != 3 {
		t.Errorf("%d files, the added one is %q", len(files), files["files/1-app.log"])
	}
	c.Call("feedback/save", object{"savePath": "two.zip", "classification": "idea"}, &saved)
	if files := zipped(t, saved.SavedPath); saved.ThreadID != "" || len(files) != 1 {
		t.Errorf("%+v: %d files", saved, len(files))
	}
}

// A report replaces no file, is nowhere else, and has no file that the client may not read.
func TestAppServerFeedbackIsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	secret := filepath.Join(r.Home, "secrets.txt")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Call("feedback/save", object{"savePath": "one.zip", "classification": "bug"}, nil)
	for name, params := range map[string]object{
		"a file that exists": {"savePath": "one.zip"},
		"elsewhere":          {"savePath": filepath.Join(r.Dir, "out.zip")},
		"above":              {"savePath": "../out.zip"},
		"a file of gantry's": {"savePath": "two.zip", "extraLogFiles": []string{secret}},
		"an unknown thread":  {"savePath": "two.zip", "threadId": "01a2219c-3f82-70ad-825d-6703c7b5defb"},
		"no thread":          {"savePath": "two.zip", "threadId": "x"},
	} {
		params["classification"] = "bug"
		if code, message := c.Refused("feedback/save", params); code != -32600 && name != "a file of gantry's" {
			t.Errorf("%s: %d %s", name, code, message)
		}
	}
	left, err := os.ReadDir(filepath.Join(r.Home, "feedback"))
	if err != nil || len(left) != 1 {
		t.Errorf("reports: %v, %v", left, err)
	}
	for _, path := range []string{filepath.Join(r.Dir, "out.zip"), filepath.Join(r.Home, "out.zip")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
