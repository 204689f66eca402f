package convertgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update-convert", false, "write sdk/wire/convert/generated.go anew")

// A field that was added to the contract has to reach both directions.
func TestGeneratedIsCurrent(t *testing.T) {
	file := filepath.Join("..", "..", "wire", "convert", "generated.go")
	got, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the contract gives; run make generate", file)
	}
}
