package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

const root = "../.."

// needs skips a test without what it needs.
func needs(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Skipf("%v: run npm ci in web/ first", err)
	}
}

// The committed files are what the sources give.
func TestBuildIsCurrent(t *testing.T) {
	needs(t, "web/node_modules/preact")
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob(filepath.Join(root, "host/internal/web/dist/*.gz"))
	if err != nil || len(committed) != len(files) {
		t.Errorf("%d files are committed, %d are built, %v", len(committed), len(files), err)
	}
	for name, want := range files {
		f, err := os.Open(filepath.Join(root, "host/internal/web/dist", name+".gz"))
		if err != nil {
			t.Error(err)
			continue
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the sources give; run make generate", name)
		}
	}
}

// The page's reducer makes the same threads as the one in Go.
func TestTranscripts(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	out := filepath.Join(t.TempDir(), "test.mjs")
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(root, "web/test/transcripts.ts")}, Outfile: out, Bundle: true, Write: true,
		Format: api.FormatESModule, Platform: api.PlatformNode,
	})
	if len(r.Errors) > 0 {
		t.Fatal(r.Errors)
	}
	if b, err := exec.Command(node, out, filepath.Join(root, "host/internal/client/testdata")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}
