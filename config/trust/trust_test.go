package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDigestBindsNamesAndContent(t *testing.T) {
	base := map[string][]byte{"gantry.hcl": []byte("ab"), "gantry.lock.hcl": []byte("c")}
	seen := map[string]string{Digest(base): "base"}
	for name, files := range map[string]map[string][]byte{
		"other content":   {"gantry.hcl": []byte("aB"), "gantry.lock.hcl": []byte("c")},
		"moved byte":      {"gantry.hcl": []byte("a"), "gantry.lock.hcl": []byte("bc")},
		"file missing":    {"gantry.hcl": []byte("ab")},
		"file empty":      {"gantry.hcl": []byte("ab"), "gantry.lock.hcl": nil},
		"other name":      {"gantry.hcl": []byte("ab"), "gantry.lock.hcx": []byte("c")},
		"contents traded": {"gantry.hcl": []byte("c"), "gantry.lock.hcl": []byte("ab")},
		"nothing":         {},
	} {
		d := Digest(files)
		if other, twice := seen[d]; twice {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	if Digest(base) != Digest(map[string][]byte{"gantry.lock.hcl": []byte("c"), "gantry.hcl": []byte("ab")}) {
		t.Error("the digest depends on the order of a map")
	}
}

func TestStore(t *testing.T) {
	ctx := t.Context()
	home, project := filepath.Join(t.TempDir(), "home"), t.TempDir()
	s := Open(home)
	if s.Trusted(project, "t1:a") {
		t.Error("trusted before anybody was asked")
	}
	if err := s.Add(ctx, project, "t1:a"); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(project, link); err != nil {
		link = project
	}
	if !s.Trusted(project, "t1:a") || !s.Trusted(link, "t1:a") {
		t.Error("not trusted after the answer")
	}
	if s.Trusted(project, "t1:b") || s.Trusted(t.TempDir(), "t1:a") {
		t.Error("the answer holds for other content or another folder")
	}
	if err := s.Renew(ctx, project, "t1:wrong", "t1:c"); err != nil || s.Trusted(project, "t1:c") {
		t.Errorf("renewed from content that was not trusted: %v", err)
	}
	if err := s.Renew(ctx, project, "t1:a", "t1:c"); err != nil || !s.Trusted(project, "t1:c") || s.Trusted(project, "t1:a") {
		t.Errorf("not renewed: %v", err)
	}
	if err := s.Add(ctx, project, "t1:d"); err != nil {
		t.Fatal(err)
	}
	if ps, err := s.List(); err != nil || len(ps) != 1 || ps[0].Digest != "t1:d" || ps[0].At.IsZero() {
		t.Errorf("List = %v, %v, want one answer", ps, err)
	}
	if info, err := os.Stat(filepath.Join(home, "trusted.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file mode = %v, %v, want 0600", info, err)
	}
	if removed, err := s.Remove(ctx, project); err != nil || !removed || s.Trusted(project, "t1:d") {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	if removed, err := s.Remove(ctx, project); err != nil || removed {
		t.Errorf("Remove again = %v, %v", removed, err)
	}
}

func TestBrokenListTrustsNothingAndIsNotOverwritten(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	path := filepath.Join(home, "trusted.json")
	for _, text := range []string{"{", `{"version":2,"projects":[]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := Open(home)
		if s.Trusted(project, "t1:a") {
			t.Error("trusted by a broken list")
		}
		if _, err := s.List(); err == nil {
			t.Error("List = nil error, want one")
		}
		if err := s.Add(t.Context(), project, "t1:a"); err == nil {
			t.Error("Add = nil, want an error")
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("file = %q, %v, want it untouched", got, err)
		}
	}
}
