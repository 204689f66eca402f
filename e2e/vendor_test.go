package e2e_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// vendorBlocks are the provider blocks by which each of our providers reaches a vendor on loopback.
var vendorBlocks = map[string]struct {
	source, path, model, vendor string
	blind                       bool // no model of the vendor takes pictures
}{
	"openai-responses": {"builtin/openai", "/v1", "gpt-5.4", "", false},
	"anthropic":        {"builtin/anthropic", "/v1", "claude-opus-4-8", "", false},
	"gemini":           {"builtin/google", "/v1beta", "gemini-3.5-flash", "", false},
	"openai-chat":      {"builtin/compatible", "/v1", "own-model", "", false},
	"deepseek":         {"builtin/compatible", "/v1", "deepseek-reasoner", "deepseek", true},
	"ollama":           {"builtin/ollama", "", "qwen3:8b", "", false},
	"bedrock":          {"builtin/bedrock", "", "us.anthropic.claude-haiku-4-5-20251001-v1:0", "", false},
}

// useVendor makes a vendor's service the model of a rig. more are further lines of the provider's block.
func useVendor(r *rig.Rig, vendor, url string, more ...string) {
	b := vendorBlocks[vendor]
	r.Env = append(r.Env, "VENDOR_KEY="+vendors.Key)
	extra := strings.Join(append(more, ""), "\n")
	if b.vendor != "" {
		extra += fmt.Sprintf("  vendor   = %q\n", b.vendor)
	}
	r.Config(fmt.Sprintf(`
default_model = "real"

provider "vendor" {
  source   = %q
  base_url = %q
  api_key  = env("VENDOR_KEY")
%s}

model "real" {
  provider = "vendor"
  name     = %q
}
`, b.source, url+b.path, extra, b.model))
}

// TestVendors lets each provider work on a task against a service that is as strict as the real one: a failure before the
// answer, parallel calls, an answer that breaks off, an image, reasoning that must come back.
func TestVendors(t *testing.T) {
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			command := func(cmd string) vendors.Call {
				return vendors.Call{Name: "exec_command", Args: map[string]any{"cmd": cmd, "login": false}}
			}
			s := vendors.Start(t, vendor,
				vendors.Answer{Fail: 503},
				vendors.Answer{Reasoning: "Two files, both at once.", Text: "I read both.", Calls: []vendors.Call{command("cat a"), command("cat b")}},
				vendors.Answer{Text: "There is a picture, too.", Cut: true},
				vendors.Answer{Reasoning: "Look at it.", Calls: []vendors.Call{{Name: "view_image", Args: map[string]any{"path": "dot.png"}}}},
				vendors.Answer{Text: "Alpha, bravo and a dot."},
			)
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			r.Write("a", "alpha\n")
			r.Write("b", "bravo\n")
			r.Write("dot.png", dot(t))
			res := r.OK("exec", "what is in the files?")
			if !strings.Contains(res.Stdout, "Alpha, bravo and a dot.") {
				t.Errorf("stdout:\n%s", res.Stdout)
			}
			if n := strings.Count(res.Stdout+res.Stderr, "There is a picture, too."); n != 1 {
				t.Errorf("what was said before the break is shown %d times:\n%s\n%s", n, res.Stdout, res.Stderr)
			}
			requests := s.Requests()
			last := string(requests[len(requests)-1].Raw)
			for want, times := range map[string]int{"alpha": 1, "bravo": 1, "There is a picture, too.": 0} { // the last was not followed by anything
				if n := strings.Count(last, want); n != times {
					t.Errorf("the last request holds %q %d times, want %d:\n%s", want, n, times, last)
				}
			}
			if strings.Contains(last, "iVBORw0KGgo") == vendorBlocks[vendor].blind {
				t.Errorf("the picture in the last request: %v\n%s", !vendorBlocks[vendor].blind, last)
			}
		})
	}
}

func dot(t *testing.T) string {
	img := image.NewRGBA(image.Rect(0, 0, 8, 8))
	img.Set(4, 4, color.White)
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
