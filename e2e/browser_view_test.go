package e2e_test

import (
	"bytes"
	"image/jpeg"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A person sees the tab in which the agent works, acts in it, and keeps the agent from acting for as long as they have control.
func TestViewOfABrowser(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], act("c1", "{ navigate = { url = '"+s.URL+"' } }")+"[[step]]\ndo = [{ text = \"opened\" }]\n"+
		"[[step]]\ndo = [{ call = \"browser_act\", id = \"c2\", args = { actions = [{ click = { index = 2 } }] } }, { call = \"wait_for\", id = \"w1\", args = { file = \"go\" } }]\n"+done)
	addOdd(t, r, "waits", "waits", "")
	c := r.AppServer(reaching("workspace-write")...)
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "open it")
	c.Notified("turn/completed")
	session := sessionOf(t, r, c, thread)
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": session, "kinds": []string{"terminal"}, "size": map[string]any{"width": 1, "height": 1}}, "can't be shown as terminal")
	o := openView(t, c, thread, session)
	if o.Kind != "screen" || o.Title != "Browser" || o.ReadOnly {
		t.Errorf("opened %+v", o)
	}
	w := &viewer{t: t, c: c, id: o.ViewID}
	var f struct {
		Number     uint64
		MediaType  string
		Viewport   struct{ Width, Height int }
		Scale      float64
		DataBase64 []byte
	}
	w.inline().Into(t, &f)
	c.Request("gantry/view/ack", map[string]any{"viewId": w.id, "number": f.Number})
	if img, err := jpeg.Decode(bytes.NewReader(f.DataBase64)); err != nil || f.MediaType != "image/jpeg" || f.Viewport.Width < 500 || img.Bounds().Dx() > 100 {
		t.Errorf("%v, %s, %+v", err, f.MediaType, f.Viewport)
	}
	// acted reports whether an action of the agent has ended since a message.
	acted := func(from int) bool {
		return slices.ContainsFunc(c.All[from:], func(m rig.Message) bool {
			return m.Method == "item/completed" && strings.Contains(string(m.Params), `"tool":"browser_act"`)
		})
	}
	from := len(c.All)
	w.control(true)
	submit(t, c, thread, "greet")
	r.Until("the call beside it waits", func() bool { return exists(r.Dir, "go.waiting") })
	// The field is found by the keyboard, wherever the page has put it.
	for _, key := range []string{"Tab", "x"} {
		w.input(map[string]any{"type": "key", "key": key, "down": true})
		w.input(map[string]any{"type": "key", "key": key, "down": false})
	}
	w.input(map[string]any{"type": "text", "text": "Grace"})
	w.input(map[string]any{"type": "navigate", "address": "file:///etc/passwd"})
	c.Until(func(m rig.Message) bool {
		return m.Method == "gantry/view/state" && strings.Contains(string(m.Params), "only http and https are")
	})
	if acted(from) {
		t.Error("the agent acted while a person had control")
	}
	w.control(false)
	r.Write("go", "")
	c.Notified("turn/completed")
	if !acted(from) {
		t.Error("the agent's action is not told")
	}
	if out := r.Last().Outputs(); !strings.Contains(out["c2"], "Hello xGrace") {
		t.Errorf("%s", out["c2"])
	}
}
