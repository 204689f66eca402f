package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// settles tells when a vendor's format lets pieces of an answer count, so that a break behind them does not undo them.
var settles = map[string]struct{ text, calls bool }{
	"openai-responses": {true, true}, "anthropic": {true, true}, "gemini": {true, true}, "ollama": {true, true}, "bedrock": {true, true}, // at the next piece
	"openai-chat": {false, false}, "deepseek": {false, false}, // at the end of the answer
}

func note(s string) vendors.Call {
	return vendors.Call{Name: "exec_command", Args: map[string]any{"cmd": "echo " + s + " >> ran; echo did " + s, "login": false}}
}

// halfOfIt is an answer in the middle of which something happens.
func halfOfIt(b vendors.Break, cut bool) vendors.Answer {
	return vendors.Answer{Text: "Half of it.", Calls: []vendors.Call{note("a"), note("b")}, Break: b, Cut: cut}
}

// shown checks that the user sees what was said before a break, once; and that the model sees it as often as it counts.
func shown(t *testing.T, s *vendors.Server, vendor string, o outcome) {
	t.Helper()
	var said []string
	for _, e := range rig.Events(t, o.stdout) {
		var b struct {
			Item struct{ Type, Text, Status string }
		}
		if e.Kind == "item.completed" {
			if e.Into(t, &b); b.Item.Type == "agent_message" {
				said = append(said, b.Item.Text)
			}
		}
	}
	if n := strings.Count(strings.Join(said, "|"), "Half of it."); n != 1 {
		t.Errorf("the user sees %d times what was said before the break: %q", n, said)
	}
	requests := s.Requests()
	last := string(requests[len(requests)-1].Raw)
	want := 0
	if settles[vendor].text {
		want = 1
	}
	if n := strings.Count(last, "Half of it."); len(requests) > 1 && n != want {
		t.Errorf("the model sees %d times what was said before the break, want %d:\n%s", n, want, last)
	}
}

// ranOnce checks that each of the two calls ran once and that the model sees their outputs once.
func ranOnce(t *testing.T, s *vendors.Server, r *rig.Rig) {
	t.Helper()
	if ran := r.Read("ran"); ran != "a\nb\n" && ran != "b\na\n" {
		t.Errorf("the calls ran like this: %q", ran)
	}
	requests := s.Requests()
	last := string(requests[len(requests)-1].Raw)
	for _, output := range []string{`did a\n"`, `did b\n"`} {
		if n := strings.Count(last, output); n != 1 {
			t.Errorf("the model sees the output %s %d times:\n%s", output, n, last)
		}
	}
}

// TestVendorStreamBreaks: what was whole before the break counts, once, for the user and for the model.
func TestVendorStreamBreaks(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		for name, tc := range map[string]struct {
			how     vendors.Break
			cut     bool
			notices int
			says    string
		}{
			"cut":         {vendors.Well, true, 1, "broke off"},
			"failing":     {vendors.Failing, false, 1, ": the service says no"},
			"silent":      {vendors.Silent, false, 1, "sent nothing for 1s during its response"},
			"interleaved": {how: vendors.Interleaved},
			"mislabelled": {how: vendors.Mislabelled},
			"trailing":    {how: vendors.Trailing},
		} {
			t.Run(vendor+"/"+name, func(t *testing.T) {
				t.Parallel()
				answers := []vendors.Answer{halfOfIt(tc.how, tc.cut), allIsWell}
				again := tc.notices > 0 && !settles[vendor].calls
				if again { // nobody has asked for the calls yet, so the model does it again
					answers = []vendors.Answer{answers[0], {Calls: []vendors.Call{note("a"), note("b")}}, allIsWell}
				}
				s := vendors.Start(t, vendor, answers...)
				r := rig.New(t, "")
				useVendor(r, vendor, s.URL, `  idle_timeout = "1s"`)
				o := ask(t, r)
				o.went(t, tc.notices, tc.says)
				ranOnce(t, s, r)
				if tc.notices > 0 {
					shown(t, s, vendor, o)
				}
			})
		}
	}
}

// TestVendorStreamIsGarbled: the turn ends with an error, since nobody knows what is missing; what was shown stays.
func TestVendorStreamIsGarbled(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := vendors.Start(t, vendor, halfOfIt(vendors.Garbled, false))
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			o := ask(t, r)
			o.failed(t, "invalid-output", " sent an invalid response: ", "a proxy may be changing responses")
			shown(t, s, vendor, o)
			res := r.OK("threads", "list")
			if !strings.Contains(res.Stdout, "hello") {
				t.Errorf("the thread is gone:\n%s", res.Stdout)
			}
		})
	}
}

// TestVendorProviderIsKilled: another process of the provider goes on where the first one ended.
func TestVendorProviderIsKilled(t *testing.T) {
	t.Parallel()
	for vendor, b := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := vendors.Start(t, vendor, vendors.Answer{Text: "Half of it.", Break: vendors.Silent}, allIsWell)
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			run := r.Start("exec", "hello")
			run.Sees("Half of it.")
			rig.Kill(t, rig.Processes(t, r.Home, strings.Replace(b.source, "builtin/", "gantry-provider-", 1))...)
			res := run.Wait()
			if res.Code != 0 || !strings.Contains(res.Stdout, "All is well.") {
				t.Fatalf("exit %d\n%s\n%s", res.Code, res.Stdout, res.Stderr)
			}
			for text, times := range map[string]int{"Half of it.": 1, "! ": 1, "! the stream broke": 1} {
				if n := strings.Count(res.Stderr, text); n != times {
					t.Errorf("the user reads %q %d times:\n%s", text, n, res.Stderr)
				}
			}
			// Nothing followed it: the model says it again, and does not read it.
			if again := string(s.Requests()[1].Raw); strings.Contains(again, "Half of it.") {
				t.Errorf("the model sees what was said before the kill:\n%s", again)
			}
			r.NothingLeft()
		})
	}
}

// TestVendorStreamIsEndless: an answer that goes on and on ends where a user says so.
func TestVendorStreamIsEndless(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := vendors.Start(t, vendor, vendors.Answer{Text: "On and on. ", Break: vendors.Endless})
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			run := r.Start("exec", "hello")
			run.SeesTimes(" on. ", 1000)
			run.Signal(os.Interrupt)
			if res := run.Wait(); res.Code != 1 || !strings.Contains(res.Stderr, "\ninterrupted\n") {
				t.Errorf("exit %d\n%s", res.Code, res.Stderr[max(0, len(res.Stderr)-1000):])
			}
			r.NothingLeft()
		})
	}
}

// TestVendorStreamIsBounded: an answer that nobody ends has an end all the same, and is not asked for again.
func TestVendorStreamIsBounded(t *testing.T) {
	t.Parallel()
	for _, vendor := range []string{"anthropic", "ollama"} {
		t.Run(vendor, func(t *testing.T) {
			s := vendors.Start(t, vendor, vendors.Answer{Text: strings.Repeat("x", 512<<10), Break: vendors.Endless})
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			res := r.Gantry("exec", "hello")
			if res.Code != 1 || !strings.Contains(res.Stderr, "the answer is longer than 64 MiB") || len(s.Requests()) != 1 {
				t.Errorf("exit %d, %d requests\n%s", res.Code, len(s.Requests()), res.Stderr[max(0, len(res.Stderr)-1000):])
			}
			r.NothingLeft()
		})
	}
}
