package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Where a block is only looked at, what is missing around it is told and does no harm; what is wrong in it stays wrong.
func TestPreview(t *testing.T) {
	text := json.RawMessage(`"string"`)
	m := &contract.Manifest{Kind: contract.KindProvider, Config: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{
		{Name: "key", Type: text, Sensitive: true}, {Name: "base", Type: text, Default: json.RawMessage(`"own"`)}, {Name: "other", Type: text},
	}}}
	for _, tt := range []struct{ name, block, want, problems string }{
		{"all is there", `key = env("HAS")` + "\nbase = \"b\"", `{"base":"b","key":{"$secret":"key"},"other":null}`, ""},
		{"the key is not set", `key = env("GONE")` + "\nother = \"o\"", `{"base":"own","key":{"$secret":"key"},"other":"o"}`, "GONE"},
		{"a stored key is not there", `key = secret("gone")`, `{"base":"own","key":{"$secret":"key"},"other":null}`, `secret "gone"`},
		{"another variable is not set", `base = env("GONE")`, `{"base":null,"key":null,"other":null}`, "GONE"},
		{"something else is given", `base = env("GONE", "else")`, `{"base":"else","key":null,"other":null}`, ""},
		{"a variable of the program is not set", "env {\n A = env(\"GONE\")\n}", `{"base":"own","key":null,"other":null}`, "GONE"},
		{"an argument is unknown", `kye = "x"`, "", `"kye"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := write(t, map[string]string{"home/gantry.hcl": "provider \"p\" {\n source = \"./p\"\n" + tt.block + "\n}\n"})
			o := options(root)
			o.LookupEnv = func(name string) (string, bool) { return "value", name == "HAS" || name == "HOME" }
			b := must(mustLoad(t, o).Provider("p"))
			got, secrets, ds := b.Preview(m)
			if string(got) != tt.want {
				t.Errorf("%s, want %s (%v)", got, tt.want, ds)
			}
			if (tt.problems == "") != (len(ds) == 0) || !strings.Contains(fmt.Sprint(ds), tt.problems) {
				t.Errorf("problems %v, want %s", ds, tt.problems)
			}
			if ds.HasErrors() != (tt.want == "") {
				t.Errorf("errors: %v", ds)
			}
			if strings.Contains(tt.want, "$secret") && len(secrets) != 1 {
				t.Errorf("secrets %v", secrets)
			}
		})
	}
	root := write(t, map[string]string{"home/gantry.hcl": "provider \"p\" {\n source = \"./p\"\n}\n"})
	if _, _, ds := must(mustLoad(t, options(root)).Provider("p")).Preview(&contract.Manifest{Kind: contract.KindTool}); !ds.HasErrors() {
		t.Error("a tool plugin is a provider")
	}
}
