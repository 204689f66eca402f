package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/table"
)

// The guide lists the vendors that are known by name, and no others, with the variables that the programs name.
func TestVendorTable(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(read(t, "docs/guides/providers.md").text, "## Compatible services\n")
	if !ok {
		t.Fatal("the guide has no section on compatible services")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]*) \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
		row, known := table.Lookup(m[1])
		if !known {
			t.Errorf("there is no vendor %q", m[1])
			continue
		}
		key := fmt.Sprintf("`%s`", row.KeyVariable)
		if row.Keyless {
			key = "none"
		}
		if m[3] != key || !strings.HasPrefix(m[2], row.Name) {
			t.Errorf("the row of %s says %q, %q; the table has %q, %q", m[1], m[2], m[3], row.Name, key)
		}
	}
	if !slices.Equal(listed, table.IDs()) {
		t.Errorf("the guide lists %q, there are %q", listed, table.IDs())
	}
}
