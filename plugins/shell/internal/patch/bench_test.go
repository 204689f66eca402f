package patch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkLargeFile is a patch with three chunks, spread over a file of 50,000 lines: checked, and then made. One of the
// chunks differs from the file in white space, so that it is looked for more than once.
func BenchmarkLargeFile(b *testing.B) {
	var content strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&content, "\tline number %d of a file that is rather long\n", i)
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "f")
	line := func(n int) string { return fmt.Sprintf("line number %d of a file that is rather long", n) }
	text := "*** Begin Patch\n*** Update File: f\n@@\n-\t" + line(10) + "\n+\tnew\n@@\n \t" + line(25_000) + "\n+\tmore\n@@\n-" + line(49_990) + "\n*** End Patch"
	b.SetBytes(int64(content.Len()))
	for b.Loop() {
		b.StopTimer()
		if err := os.WriteFile(file, []byte(content.String()), 0o644); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		p, err := plan(dir, text)
		if err != nil {
			b.Fatal(err)
		}
		if o := p.Slim().Apply(); o.Failure != "" {
			b.Fatal(o.Failure)
		}
	}
}
