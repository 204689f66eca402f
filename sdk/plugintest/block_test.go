//go:build unix

package plugintest

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
)

var testSchema = contract.ConfigBlock{
	Attributes: []contract.ConfigAttribute{
		{Name: "region", Type: json.RawMessage(`"string"`), Required: true},
		{Name: "units", Type: json.RawMessage(`"string"`), Default: json.RawMessage(`"metric"`)},
		{Name: "key", Type: json.RawMessage(`"string"`), Sensitive: true},
		{Name: "tags", Type: json.RawMessage(`["list","string"]`)},
		{Name: "any", Type: json.RawMessage(`"dynamic"`)},
	},
	Blocks: []contract.ConfigNestedBlock{
		{Name: "login", MaxItems: 1, Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "password", Type: json.RawMessage(`"string"`), Sensitive: true}}}},
		{Name: "site", Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "path", Type: json.RawMessage(`"string"`), Default: json.RawMessage(`"/"`)}}}},
	},
}

func testKit(config string) *kit {
	k := &kit{cfg: Config{Config: json.RawMessage(config)}, manifest: &contract.Manifest{Config: testSchema}, host: &host{}}
	k.host.mu.secrets = map[string]string{}
	return k
}

func TestBlockIsRenderedAsAHostDoes(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"empty", ``, `{"any":null,"key":null,"login":null,"region":null,"site":[],"tags":null,"units":"metric"}`},
		{
			"secrets become handles", `{"key":"k1","login":{"password":"p1"}}`,
			`{"any":null,"key":{"$secret":"kit-key"},"login":{"password":{"$secret":"kit-login.password"}},"region":null,"site":[],"tags":null,"units":"metric"}`,
		},
		{
			"blocks have defaults", `{"region":"n","units":"imperial","site":[{},{"path":"/a"}]}`,
			`{"any":null,"key":null,"login":null,"region":"n","site":[{"path":"/"},{"path":"/a"}],"tags":null,"units":"imperial"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := testKit(tt.config)
			if got := string(mustJSON(k.block())); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	k := testKit(`{"key":"k1","login":{"password":"p1"}}`)
	k.block()
	if k.host.mu.secrets["kit-key"] != "k1" || k.host.mu.secrets["kit-login.password"] != "p1" {
		t.Errorf("secrets = %v", k.host.mu.secrets)
	}
}

func TestBadBlocksHaveOneErrorEach(t *testing.T) {
	k := testKit(`{"region":"n"}`)
	good := k.block()
	for kind, bad := range map[string][]badBlock{"type": k.wrongTypes(), "missing": k.missing(), "unknown": k.unknown()} {
		want := map[string]int{"type": 6, "missing": 1, "unknown": 1}[kind] // all but the dynamic one
		if len(bad) != want {
			t.Errorf("%s: %d blocks, want %d", kind, len(bad), want)
		}
		for _, b := range bad {
			if string(good[b.name]) == string(b.block[b.name]) {
				t.Errorf("%s: %s has no mistake at %s", kind, b.what, b.name)
			}
			delete(b.block, b.name)
			for name, v := range b.block {
				if string(good[name]) != string(v) {
					t.Errorf("%s: %s also changes %s", kind, b.what, name)
				}
			}
		}
	}
}

func TestCheckPath(t *testing.T) {
	name, key, index := contract.Name, contract.Key, contract.Index
	tests := []struct {
		path []contract.Step
		at   string
		ok   bool
	}{
		{nil, "region", true},
		{[]contract.Step{name("region")}, "region", true},
		{[]contract.Step{name("tags"), index(3)}, "tags", true},
		{[]contract.Step{name("login"), name("password")}, "login", true},
		{[]contract.Step{name("units")}, "region", false},
		{[]contract.Step{index(0)}, "region", false},
		{[]contract.Step{key("region")}, "region", false},
		{[]contract.Step{name(unknownAttribute)}, unknownAttribute, true},
		{[]contract.Step{name(unknownAttribute), name("more")}, unknownAttribute, false},
	}
	for _, tt := range tests {
		if err := checkPath(testSchema, tt.path, tt.at); (err == nil) != tt.ok {
			t.Errorf("checkPath(%s at %s) = %v, want ok %v", showPath(tt.path), tt.at, err, tt.ok)
		}
	}
}

func TestPaddedHasTheRequestedSize(t *testing.T) {
	for _, size := range []int{100, 127, 128, 129, 130, 131, 132, 133, 200, 16383, 16384, 16385, 16386, 16387, 16388, 16389, 4<<20 - 1, 4<<20 + 1, 16 << 20, 16<<20 + 1} {
		// A length takes one byte more at some sizes, which can't be hit exactly then.
		if got := proto.Size(padded(size)); got != size && got != size-1 {
			t.Errorf("padded(%d) has %d bytes", size, got)
		}
	}
	for _, size := range []int{4<<20 - 1, 4<<20 + 1, 16 << 20, 16<<20 + 1} {
		if got := proto.Size(padded(size)); got != size {
			t.Errorf("padded(%d) has %d bytes", size, got)
		}
	}
}
