package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// signedBlock is a provider that signs requests with an account's credentials.
const signedBlock = `
default_model = "real"

provider "vendor" {
  source            = "builtin/bedrock"
  base_url          = %q
  region            = %q
  access_key_id     = env("ACCESS_KEY_ID")
  secret_access_key = env("SECRET_ACCESS_KEY")
  session_token     = env("SESSION_TOKEN")
}

model "real" {
  provider = "vendor"
  name     = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
}
`

// TestBedrockSigns: the service calculates each signature anew, that of a second try too.
func TestBedrockSigns(t *testing.T) {
	t.Parallel()
	s := vendors.Start(t, "bedrock", vendors.Answer{Fail: 503},
		vendors.Answer{Reasoning: "Look.", Calls: []vendors.Call{note("a")}}, vendors.Answer{Text: "Well signed."})
	r := rig.New(t, "")
	r.Env = append(r.Env, "ACCESS_KEY_ID="+vendors.AccessKeyID, "SECRET_ACCESS_KEY="+vendors.SecretAccessKey, "SESSION_TOKEN="+vendors.SessionToken)
	r.Config(fmt.Sprintf(signedBlock, s.URL, vendors.Region))
	if res := r.OK("exec", "sign it"); !strings.Contains(res.Stdout, "Well signed.") {
		t.Errorf("stdout:\n%s", res.Stdout)
	}
	shown := r.OK("model", "prepare", "sign it").Stdout
	for _, secret := range []string{vendors.SecretAccessKey, vendors.SessionToken, vendors.AccessKeyID} {
		if strings.Contains(shown, secret) {
			t.Errorf("a prepared request shows %q:\n%s", secret, shown)
		}
	}
}

// TestBedrockWithoutARegion: nothing is asked of a region that nobody named.
func TestBedrockWithoutARegion(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Env = append(r.Env, "VENDOR_KEY="+vendors.Key)
	r.Config(`
default_model = "real"

provider "vendor" {
  source  = "builtin/bedrock"
  api_key = env("VENDOR_KEY")
}

model "real" {
  provider = "vendor"
  name     = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
}
`)
	res := r.Gantry("exec", "hello")
	if res.Code != 1 || !strings.Contains(res.Stderr, "region") || !strings.Contains(res.Stderr, "us-east-1") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
}
