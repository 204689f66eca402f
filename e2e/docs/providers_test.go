package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/providers/catalog"
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

// What gantry knows of vendors without a block agrees with what their providers know.
func TestVendorsOfKeys(t *testing.T) {
	for _, v := range config.Vendors() {
		vendor := v.Label
		if row, ok := table.Lookup(v.Label); v.Source == "builtin/compatible" || ok {
			if !ok || row.KeyVariable != v.Variable {
				t.Errorf("%s: the table says %+v", v.Label, row)
				continue
			}
			vendor = row.Catalog
		}
		if v.Model == "" {
			continue
		}
		models, ok := catalog.Embedded(vendor)
		if !ok {
			t.Errorf("%s: no catalog", v.Label)
		}
		if m, match := models.Find(v.Model); match != catalog.MatchExact || !m.Capabilities.Tools.Supported {
			t.Errorf("%s: model %q is %+v", v.Label, v.Model, m)
		}
	}
}
