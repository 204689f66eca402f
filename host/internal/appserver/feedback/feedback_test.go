package feedback

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// says adds a file with a text.
func says(name, text string) func(*zip.Writer) error {
	return func(z *zip.Writer) error {
		w, err := z.Create(name)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, text)
		return err
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "feedback")
	for _, name := range []string{"one.zip", "a/b.zip", filepath.Join(dir, "two.zip")} {
		path, err := Save(dir, name, says("f", "text"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := fs.ReadFile(r, "f")
		if err = errors.Join(err, r.Close()); err != nil || string(b) != "text" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// No file outside of the folder is written, and none is replaced, through links either.
func TestSaveStaysInItsFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(t.TempDir(), "feedback")
	if _, err := Save(dir, "one.zip", says("f", "text")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(filepath.Join(outside, "x.zip"), filepath.Join(dir, "dangling.zip")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", ".", "..", "../x.zip", "a/../../x.zip", filepath.Join(outside, "x.zip"), dir, "link/x.zip", "dangling.zip", "one.zip", "one.zip/x.zip",
	} {
		if path, err := Save(dir, name, says("f", "other")); err == nil {
			t.Errorf("%q was written as %s", name, path)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// A report that fails leaves no file.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := errors.New("broken")
	if _, err := Save(dir, "one.zip", func(*zip.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
