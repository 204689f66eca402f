package config_test

import (
	"io/fs"
	"testing"
)

// The stored secret of a block's key, and whether a key is there.
func TestKeyOfABlock(t *testing.T) {
	root := write(t, map[string]string{"project/x": "", "home/gantry.hcl": `
provider "stored" {
  source  = "./p"
  api_key = secret("there")
  other   = secret("missing")
}
provider "missing" {
  source = "./p"
  token  = secret("missing")
}
provider "variable" {
  source  = "./p"
  api_key = env("KEY")
}
provider "unset" {
  source  = "./p"
  api_key = env("NOT_SET")
}
provider "plain" {
  source = "./p"
  oauth {
    client_secret = "abc"
  }
}
provider "program" {
  source  = "./p"
  api_key = command(["print-key"])
}
provider "two" {
  source = "./p"
  a      = secret("there")
  b      = secret("other")
  base_url = "https://me:pw@example.com/v1"
}
provider "none" {
  source   = "./p"
  base_url = "https://example.com"
}
`})
	o := options(root)
	o.LookupEnv = func(n string) (string, bool) { return "value", n == "HOME" || n == "KEY" }
	o.Secret = func(n string) (string, error) {
		if n == "there" {
			return "s3cret", nil
		}
		return "", fs.ErrNotExist
	}
	c := mustLoad(t, o)
	for label, want := range map[string]struct {
		secret string
		has    bool
	}{
		"stored": {"there", true}, "missing": {"missing", false}, "variable": {"", true}, "unset": {"", false}, "plain": {"", true}, "program": {"", true},
		"two": {"", true}, "none": {"", false},
	} {
		b, ok := c.Provider(label)
		if !ok {
			t.Fatal(label)
		}
		if url := b.BaseURL(); url != map[string]string{"none": "https://example.com", "two": "https://me:(hidden)@example.com/v1"}[label] {
			t.Errorf("%s is at %q", label, url)
		}
		name, found := b.KeySecret()
		if name != want.secret || found != (want.secret != "") || b.HasKey() != want.has {
			t.Errorf("%s: %q, %v, %v", label, name, found, b.HasKey())
		}
	}
}
