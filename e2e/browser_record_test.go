package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What happens in a browser is recorded for people, and no recording has a secret that was typed meanwhile.
func TestBrowserRecording(t *testing.T) {
	t.Parallel()
	a := newVault(t)
	tell := func(id, args string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_record\", id = %q, args = { %s } }]\n", id, args)
	}
	r := newBrowserWith(t, browsers[0], "    downloads = \"got\"\n"+fmt.Sprintf(secrets, hunter, a.URL, otpKey, a.URL), act("c1", fmt.Sprintf("{ navigate = { url = %q } }", a.URL))+
		tell("r1", `do = "start"`)+tell("r2", `do = "start"`)+
		act("c2", `{ fill_form = { fields = [{ index = 1, text = "ada" }, { index = 2, text = "<secret>login</secret>" }] } }, { click = { index = 3 } }`)+
		act("c3", fmt.Sprintf("{ navigate = { url = %q } }", a.URL+"/mirror"))+act("c4", `{ input = { index = 1, text = "<secret>login</secret>" } }`)+
		tell("r3", `do = "stop"`)+tell("r4", `do = "stop"`)+tell("r5", `do = "start", kinds = ["video"]`)+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"r1": "Recording har, trace, gif.", "r2": "a recording of har, trace, gif goes on", "r3": "Recorded " + r.Dir + "/got/requests.har", "r4": "nothing is recorded",
		"r5": "there is no video while the plugin's block has secrets",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	har, trace := r.Read("got/requests.har"), r.Read("got/trace.json")
	for _, text := range []string{har, trace, r.Read("got/pictures.gif")} {
		if strings.Contains(text, hunter) {
			t.Error("a recording has the secret")
		}
	}
	if !json.Valid([]byte(har)) || !strings.Contains(har, `pw=\u003csecret\u003elogin\u003c/secret\u003e`) || !strings.Contains(trace, `"fill_form, click"`) {
		t.Errorf("the login is not in the recordings:\n%.2000s\n%.1000s", har, trace)
	}
	r.NothingLeft()
}

// The browser in its sandbox makes a video of a tab.
func TestBrowserVideo(t *testing.T) {
	t.Parallel()
	for _, program := range browsers {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s := form(t)
			tell := func(id, args string) string {
				return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_record\", id = %q, args = { %s } }]\n", id, args)
			}
			r := newBrowserWith(t, program, "    downloads = \"got\"", act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+tell("r1", `do = "start", kinds = ["video"]`)+
				act("c2", `{ input = { index = 1, text = "Ada" } }, { click = { index = 2 } }, { wait = { seconds = 1 } }`)+tell("r2", `do = "stop"`)+done)
			r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
			out := r.Last().Outputs()
			if !strings.Contains(out["r2"], "Recorded "+r.Dir+"/got/video.webm") {
				t.Fatalf("%s\n%s\n%s", out["r1"], out["c2"], out["r2"])
			}
			if film := r.Read("got/video.webm"); !strings.HasPrefix(film, "\x1a\x45\xdf\xa3") || !strings.Contains(film, "V_VP8") || len(film) < 1000 {
				t.Errorf("%d bytes: %.60q", len(film), film)
			}
			r.NothingLeft()
		})
	}
}
