package e2e_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// picture is a PNG of four colours.
func picture(t *testing.T, w, h int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{R: uint8(x * 255 / w), G: uint8(y * 255 / h), B: 40, A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// media lists the pictures that a request holds.
func media(q rig.Request) []*llm.Media {
	var out []*llm.Media
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Media:
				out = append(out, p)
			case *llm.ToolResult:
				for _, c := range p.Content {
					if m, ok := c.(*llm.Media); ok {
						out = append(out, m)
					}
				}
			}
		}
	}
	return out
}

func TestImages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [
  { call = "view_image", id = "good", args = { path = "good.png" } },
  { call = "view_image", id = "broken", args = { path = "broken.png" } },
  { call = "view_image", id = "none", args = { path = "none.png" } },
  { call = "view_image", id = "folder", args = { path = "." } },
]
[[step]]
times = -1
do = [{ text = "seen" }]
`)
	good := picture(t, 40, 30)
	r.Write("good.png", string(good))
	r.Write("broken.png", string(good[:len(good)/2]))
	r.Write("attached.png", string(picture(t, 10, 10)))
	r.OK("exec", "--image", "attached.png", "look")
	q := r.Last()
	got := media(q)
	if len(got) != 2 {
		t.Fatalf("the model sees %d pictures, want the attached and the good one", len(got))
	}
	for i, want := range []image.Point{{10, 10}, {40, 30}} {
		img, err := png.Decode(bytes.NewReader(got[i].Data))
		if err != nil {
			t.Fatal(err)
		}
		if size := img.Bounds().Size(); size != want || got[i].MediaType != "image/png" {
			t.Errorf("picture %d is %v of type %s, want %v of image/png", i, size, got[i].MediaType, want)
		}
	}
	out := q.Outputs()
	for id, want := range map[string]string{"broken": "invalid or unsupported image data", "none": "none.png", "folder": "not a file"} {
		if !strings.Contains(out[id], want) {
			t.Errorf("the model reads of %q: %q, want something with %q", id, out[id], want)
		}
	}
	// What the model saw comes back from the store.
	r.OK("resume", "--last", "again")
	if again := media(r.Last()); len(again) != 2 || !bytes.Equal(again[1].Data, got[1].Data) {
		t.Errorf("a resumed thread has %d pictures, want the same two", len(again))
	}
}

// A terminal of the command's own: it sees a terminal, what is typed reaches it, and Ctrl-C does what it does there.
func TestCommandOnATerminal(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "test -t 0 && test -t 1 && echo a terminal; printf 'name? '; touch asked; read n; echo hello $n; touch said; sleep 600", tty = true, yield_time_ms = 250 } }]
[[step]]
capture = [{ call = "c1", pattern = 'session ID (?P<id>\d+)' }]
do = [{ call = "exec_command", id = "w1", args = { cmd = "while [ ! -e asked ]; do sleep 0.01; done" } }]
[[step]]
do = [{ call = "write_stdin", id = "c2", raw = '{"session_id": ${id}, "chars": "ada\n", "yield_time_ms": 250}' }]
[[step]]
do = [{ call = "exec_command", id = "w2", args = { cmd = "while [ ! -e said ]; do sleep 0.01; done" } }]
[[step]]
do = [{ call = "write_stdin", id = "c3", raw = '{"session_id": ${id}, "chars": "\u0003", "yield_time_ms": 30000}' }]
[[step]]
do = [{ call = "write_stdin", id = "c4", raw = '{"session_id": ${id}, "chars": "", "yield_time_ms": 250}' }]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	out := r.Last().Outputs()
	// What was printed when depends on the machine; that nothing of it is lost does not.
	all := out["c1"] + out["c2"] + out["c3"]
	for _, want := range []string{"a terminal", "name? ", "hello ada"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is there %d times, want once:\n%s", want, strings.Count(all, want), all)
		}
	}
	for id, want := range map[string]string{"c3": "Process exited with code 130", "c4": "Unknown process id"} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %q, want something with %q", id, out[id], want)
		}
	}
	r.NothingLeft()
}

// What goes on after its call is a session: it keeps running, its end is an event, and the next turn of the same host
// reaches it.
func TestSessionOutlivesItsCall(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo up; while [ ! -e go ]; do sleep 0.01; done; echo gone on; exit 7", yield_time_ms = 250 } }]
[[step]]
capture = [{ call = "c1", pattern = 'session ID (?P<id>\d+)' }]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch go; echo told" } }]
[[step]]
do = [{ call = "write_stdin", id = "c3", raw = '{"session_id": ${id}, "chars": "", "yield_time_ms": 30000}' }]
[[step]]
chunk = 1
chunk_delay_ms = 20
do = [{ text = "done, and the end of the session is on its way" }] # beside the call's result, not behind it
`)
	res := r.OK("exec", "--events", "go")
	out := r.Last().Outputs()
	if !strings.Contains(out["c1"], "Process running with session ID") || strings.Contains(out["c1"], "gone on") {
		t.Errorf("the first call: %q", out["c1"])
	}
	if !strings.Contains(out["c3"], "gone on") || !strings.Contains(out["c3"], "Process exited with code 7") {
		t.Errorf("the last look: %q", out["c3"])
	}
	var opened, exited struct {
		Session  string `json:"session"`
		Call     string `json:"call"`
		How      string `json:"how"`
		ExitCode int    `json:"exitCode"`
	}
	for _, e := range rig.Events(t, res.Stdout) {
		switch e.Kind {
		case "session.opened":
			e.Into(t, &opened)
		case "session.exited":
			e.Into(t, &exited)
		}
	}
	if opened.Call != "c1" || opened.Session == "" || exited.Session != opened.Session || exited.How != "exited" || exited.ExitCode != 7 {
		t.Errorf("opened %+v, exited %+v", opened, exited)
	}
	r.NothingLeft()
}

// A session that nobody ended ends with its host, and a resumed thread is told so.
func TestSessionEndsWithItsHost(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo up; sleep 600", yield_time_ms = 250 } }]
[[step]]
capture = [{ call = "c1", pattern = 'session ID (?P<id>\d+)' }]
do = [{ text = "left running" }]
[[step]]
do = [{ call = "write_stdin", id = "c2", raw = '{"session_id": ${id}, "chars": "x", "yield_time_ms": 250}' }]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	r.NothingLeft()
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "Unknown process id") {
		t.Errorf("the model reads of the lost session: %q", out)
	}
	id := threads(t, r)[0].ID
	exited := 0
	for _, e := range rig.Events(t, r.OK("threads", "show", "--events", id).Stdout) {
		if e.Kind == "session.exited" {
			exited++
		}
	}
	if exited != 1 {
		t.Errorf("%d ends of the session are recorded, want 1", exited)
	}
}

// What is cut of an output for the model lies where its commands can read it.
func TestAnOutputThatIsCutCanBeRead(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 30000", login = false, max_output_tokens = 50 } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "sed -n 15000p /tmp/output-*.txt; ls /tmp/output-* | wc -l", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	policied(r, "on-request", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "go")
	told := strings.Join(r.Last().Texts(llm.RoleSystem), "\n")
	if strings.Count(told, "All of the output of call c1 is in /tmp/output-") != 1 {
		t.Errorf("the model is told:\n%s", told)
	}
	if outs := r.Last().Outputs(); !strings.Contains(outs["c1"], "tokens truncated") || !strings.HasSuffix(outs["c2"], "Output:\n15000\n1\n") {
		t.Errorf("%q", outs["c2"])
	}
}
