package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const canvasID = "canvas"

// canvas is a session that consists of pictures, as a browser is: a pen leaves dots where the agent or a person presses it.
type canvas struct {
	session *tool.Session
	changed chan struct{} // closed and replaced when something changes
	over    chan struct{}

	mu    sync.Mutex
	size  contract.ViewSize
	ink   color.RGBA
	dots  map[image.Point]color.RGBA
	state contract.ViewState
}

func (c *canvas) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// shown returns a picture, the state, and what is closed when they change.
func (c *canvas) shown() (contract.ViewPicture, contract.ViewState, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	img := image.NewRGBA(image.Rect(0, 0, int(c.size.Width), int(c.size.Height)))
	for at, ink := range c.dots {
		img.SetRGBA(at.X, at.Y, ink)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img) // a buffer takes everything
	state := c.state
	state.Size = c.size
	return contract.ViewPicture{MediaType: "image/png", Data: b.Bytes(), Viewport: c.size}, state, c.changed
}

// act does what a person does. Only addresses of one origin are permitted, whoever opens them.
func (c *canvas) act(r contract.ViewRequest) {
	switch r := r.(type) {
	case contract.ViewResize:
		c.change(func() { c.size = r.Size })
	case contract.ViewInput:
		switch a := r.Act.(type) {
		case contract.ViewPointer:
			if a.Action == contract.PointerDown {
				c.change(func() { c.dots[image.Pt(int(a.X), int(a.Y))] = c.ink })
			}
		case contract.ViewKey:
			if a.Key == "r" && a.Down {
				c.change(func() { c.ink = color.RGBA{R: 255, A: 255} })
			}
		case contract.ViewNavigate:
			c.change(func() {
				if c.state.Address, c.state.Dialog = a.Address, nil; !strings.HasPrefix(a.Address, "https://paint.test/") {
					c.state.Address, c.state.Dialog = "", &contract.ViewDialog{Kind: "alert", Message: a.Address + " is not permitted"}
				}
			})
		case contract.ViewAnswer:
			c.change(func() { c.state.Dialog = nil })
		}
	}
}

func (c *canvas) view(ctx context.Context, v *tool.View) (string, error) {
	if !v.Accepts(contract.ViewScreen) {
		return "", tool.ErrNoViewKind
	}
	_, state, _ := c.shown()
	v.Opened(contract.ViewOpened{Kind: contract.ViewScreen, Size: state.Size, Title: "Canvas"})
	for {
		picture, state, changed := c.shown()
		v.State(state)
		v.Picture(picture)
		select {
		case r := <-v.Requests():
			c.act(r)
		case <-changed:
		case <-c.over:
			return "the canvas was put away", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// paints is a plugin with a canvas. An earlier version of it can't show the canvas.
func paints(shows bool) tool.Plugin {
	var mu sync.Mutex
	canvases := map[string]*canvas{}
	of := func(thread, session string) *canvas {
		mu.Lock()
		defer mu.Unlock()
		if session != canvasID {
			return nil
		}
		return canvases[thread]
	}
	stop := func(c *canvas) {
		if c != nil {
			close(c.over)
			c.session.Exited(0)
		}
	}
	type dot struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	p := tool.Plugin{
		Name: "paints", Version: fmt.Sprintf("1.0.%d", map[bool]int{true: 1}[shows]), Description: "Paints.",
		Tools: []tool.Tool{
			tool.New("open_canvas", "Opens a canvas.", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				canvases[c.ThreadID()] = &canvas{
					session: c.Thread().OpenSession(canvasID, c.ID(), "Canvas"), changed: make(chan struct{}), over: make(chan struct{}),
					size: contract.ViewSize{Width: 32, Height: 24}, ink: color.RGBA{B: 255, A: 255}, dots: map[image.Point]color.RGBA{},
					state: contract.ViewState{Title: "Canvas"},
				}
				r := tool.Text("opened")
				r.SessionID = canvasID
				return r, nil
			}),
			tool.New("dot", "Makes a dot on the canvas.", func(_ context.Context, c *tool.Call, in dot) (*tool.Result, error) {
				canvas := of(c.ThreadID(), canvasID)
				canvas.change(func() { canvas.dots[image.Pt(in.X, in.Y)] = canvas.ink })
				return tool.Text("done"), nil
			}, tool.ParallelSafe(), tool.Assess(func(_ context.Context, _ *tool.AssessCall, _ dot) (*contract.Assessment, error) {
				// It names the session, so that the host holds the call back while a person has control.
				return &contract.Assessment{Effects: []contract.Effect{contract.SessionInputEffect{SessionID: canvasID}}}, nil
			})),
		},
		StopSession: func(_ context.Context, thread, session string) error {
			c := of(thread, session)
			mu.Lock()
			delete(canvases, thread)
			mu.Unlock()
			stop(c)
			return nil
		},
		EndThread: func(_ context.Context, thread string) error {
			c := of(thread, canvasID)
			mu.Lock()
			delete(canvases, thread)
			mu.Unlock()
			stop(c)
			return nil
		},
	}
	if shows {
		p.View = func(ctx context.Context, v *tool.View) (string, error) {
			if c := of(v.Open().ThreadID, v.Open().SessionID); c != nil {
				return c.view(ctx, v)
			}
			return "", tool.ErrNoSession
		}
	}
	return p
}

const canvasScript = `
[[step]]
do = [{ call = "open_canvas", id = "o1" }]
[[step]]
do = [{ text = "opened" }]
[[step]]
do = [{ call = "dot", id = "d1", args = { x = 3, y = 4 } }, { call = "wait_for", id = "w1", args = { file = "go" } }]
[[step]]
do = [{ text = "done" }]
`

// A person watches pictures, uses pointer and keyboard, and takes control.
func TestViewOfAScreen(t *testing.T) {
	t.Parallel()
	r := rig.New(t, canvasScript)
	addOdd(t, r, "paints", "paints", "")
	addOdd(t, r, "waits", "waits", "")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "open it")
	c.Notified("turn/completed")
	sessionOf(t, r, c, thread)
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": canvasID, "kinds": []string{"terminal"}, "size": map[string]any{"width": 1, "height": 1}}, "can't be shown as terminal")
	o := openView(t, c, thread, canvasID)
	if o.Kind != "screen" || o.Size.Width != 32 || o.Title != "Canvas" {
		t.Errorf("opened %+v", o)
	}
	w := &viewer{t: t, c: c, id: o.ViewID}
	// until acknowledges pictures until a pixel has a color.
	until := func(x, y int, want color.RGBA) {
		t.Helper()
		for {
			var f struct {
				Number     uint64
				MediaType  string
				Viewport   struct{ Width, Height int }
				Scale      float64
				DataBase64 []byte
			}
			w.inline().Into(t, &f)
			c.Request("gantry/view/ack", map[string]any{"viewId": w.id, "number": f.Number})
			img, err := png.Decode(bytes.NewReader(f.DataBase64))
			if err != nil || f.MediaType != "image/png" || f.Scale != 1 || img.Bounds().Dx() != f.Viewport.Width {
				t.Fatalf("frame %d: %v, %+v", f.Number, err, f)
			}
			if r, g, b, _ := img.At(x, y).RGBA(); uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
				return
			}
		}
	}
	blue, red := color.RGBA{B: 255}, color.RGBA{R: 255}
	press := map[string]any{"type": "pointer", "x": 5, "y": 6, "action": "down"}
	w.input(press)
	until(5, 6, blue)
	w.input(map[string]any{"type": "key", "key": "r", "down": true})
	w.input(map[string]any{"type": "resize", "size": map[string]any{"width": 48, "height": 32}})
	w.input(map[string]any{"type": "pointer", "x": 40, "y": 30, "action": "down"})
	until(40, 30, red)
	refusedWith(t, c, "gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "bytes", "dataBase64": base64.StdEncoding.EncodeToString([]byte("x"))}}, "takes no bytes")

	// The plugin's rules for addresses hold for people as well.
	w.input(map[string]any{"type": "navigate", "address": "file:///etc/passwd"})
	c.Until(func(m rig.Message) bool {
		return m.Method == "gantry/view/state" && strings.Contains(string(m.Params), "is not permitted")
	})
	w.input(map[string]any{"type": "dialog", "accept": true})
	w.input(map[string]any{"type": "navigate", "address": "https://paint.test/a"})
	c.Until(func(m rig.Message) bool {
		return m.Method == "gantry/view/state" && strings.Contains(string(m.Params), `"address":"https://paint.test/a"`)
	})

	w.control(true)
	submit(t, c, thread, "make a dot")
	r.Until("the call beside it waits", func() bool { return exists(r.Dir, "go.waiting") })
	w.input(map[string]any{"type": "pointer", "x": 3, "y": 4, "action": "move"})
	w.input(map[string]any{"type": "pointer", "x": 1, "y": 1, "action": "down"})
	until(1, 1, red)
	from := len(c.All)
	w.control(false)
	until(3, 4, red)
	for _, m := range c.All[:from] {
		if m.Method == "item/completed" && strings.Contains(string(m.Params), `"tool":"dot"`) {
			t.Error("the agent's call ran while a person had control")
		}
	}
	r.Write("go", "")
	c.Notified("turn/completed")
}

// A plugin that was built before there were views answers UNIMPLEMENTED, and the client learns what to do.
func TestViewOfAnEarlierPlugin(t *testing.T) {
	t.Parallel()
	r := rig.New(t, canvasScript)
	addOdd(t, r, "paints", "paints in the dark", "")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "open it")
	c.Notified("turn/completed")
	sessionOf(t, r, c, thread)
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": canvasID, "kinds": []string{"screen"}, "size": map[string]any{"width": 1, "height": 1}}, "does not show its sessions")
}
