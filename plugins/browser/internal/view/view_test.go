//go:build unix

package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// person is a viewer.
type person struct {
	t        *testing.T
	requests chan contract.ViewRequest
	opened   chan contract.ViewOpened
	over     <-chan struct{} // closed when the browser has ended

	mu      sync.Mutex
	state   contract.ViewState
	picture contract.ViewPicture
	changed chan struct{} // closed and replaced with each state and picture
}

func (p *person) Open() contract.ViewOpen {
	return contract.ViewOpen{Size: contract.ViewSize{Width: 640, Height: 400}}
}

func (p *person) Requests() <-chan contract.ViewRequest { return p.requests }

func (p *person) Opened(o contract.ViewOpened) { p.opened <- o }

func (p *person) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *person) State(s contract.ViewState) { p.set(func() { p.state = s }) }

func (p *person) Picture(v contract.ViewPicture) { p.set(func() { p.picture = v }) }

// sees waits until what is shown is as it should be.
func (p *person) sees(what string, ok func() bool) {
	p.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		yes, changed, state := ok(), p.changed, p.state
		p.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-p.over:
			p.t.Fatalf("the view has ended while waiting for %s", what)
		case <-limit:
			p.t.Fatalf("waited for %s in vain: %+v", what, state)
		}
	}
}

func (p *person) does(a contract.ViewAct) { p.requests <- contract.ViewInput{Act: a} }

func (p *person) press(x, y float64) {
	p.does(contract.ViewPointer{X: x, Y: y, Action: contract.PointerMove})
	p.does(contract.ViewPointer{X: x, Y: y, Action: contract.PointerDown})
	p.does(contract.ViewPointer{X: x, Y: y, Action: contract.PointerUp})
}

const html = `<!doctype html><link rel=icon href=data:,><title>Start</title><style>* {margin: 0} button, input {position: absolute; left: 100px; width: 200px; height: 40px}</style>
<input style="top: 0" oninput="document.title = 'typed ' + this.value"><button style="top: 100px" onclick="document.title = 'pressed'" ondblclick="document.title = 'twice'">P</button>
<button style="top: 200px" onclick="document.title = 'answered ' + confirm('sure?')">C</button><button style="top: 300px" onclick="window.open('/popup')">O</button>
<div style="height: 5000px"></div><script>onscroll = () => document.title = 'scrolled'; if (location.pathname != '/') document.title = location.pathname</script>`

func TestShow(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, html)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tab := b.Tabs()[0]
	if _, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: s.URL}); err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, requests: make(chan contract.ViewRequest), opened: make(chan contract.ViewOpened, 1), over: b.Done(), changed: make(chan struct{})}
	var mu sync.Mutex
	taken := 0
	o := Options{Browser: b, Allowed: func(_ context.Context, url string) error {
		if !strings.HasPrefix(url, s.URL) {
			return errors.New(url + " is not allowed")
		}
		return nil
	}, Take: func() func() {
		mu.Lock()
		defer mu.Unlock()
		taken++
		return func() { mu.Lock(); defer mu.Unlock(); taken-- }
	}}
	shown, end := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { _, err := Show(shown, o, p); ended <- err }() // ends with shown
	if o := <-p.opened; o.Kind != contract.ViewScreen || len(o.Targets) != 1 || !o.Targets[0].Active {
		t.Errorf("%+v", o)
	}
	title := func(want string) {
		t.Helper()
		p.sees(want, func() bool { return p.state.Title == want })
	}
	title("Start")
	p.sees("a picture", func() bool { return p.picture.Data != nil })
	p.mu.Lock()
	img, err := jpeg.Decode(bytes.NewReader(p.picture.Data))
	v := p.picture
	p.mu.Unlock()
	if err != nil || v.Viewport.Width < 300 || img.Bounds().Dx() > 640 || v.Scale <= 0 || v.Scale > 1 {
		t.Errorf("%v, %+v, scale %v", err, v.Viewport, v.Scale)
	}
	p.press(150, 20)
	p.does(contract.ViewKey{Key: "a", Down: true})
	p.does(contract.ViewKey{Key: "a"})
	title("typed a")
	p.does(contract.ViewText{Text: "bé"})
	title("typed abé")
	p.press(150, 120)
	title("pressed")
	p.press(150, 120)
	title("twice")
	p.press(150, 220)
	p.sees("the dialog", func() bool { return p.state.Dialog != nil && p.state.Dialog.Message == "sure?" })
	p.does(contract.ViewAnswer{Accept: true})
	title("answered true")
	p.does(contract.ViewWheel{X: 50, Y: 50, DeltaY: 30})
	title("scrolled")
	p.does(contract.ViewNavigate{Address: "file:///etc/passwd"})
	p.sees("the refusal", func() bool { return p.state.Dialog != nil && p.state.Dialog.Kind == "alert" })
	p.does(contract.ViewAnswer{})
	p.sees("the end of the refusal", func() bool { return p.state.Dialog == nil })
	p.does(contract.ViewNavigate{Address: s.URL + "/next"})
	p.sees("the page", func() bool { return p.state.Address == s.URL+"/next" && p.state.Title == "/next" })
	p.press(150, 320)
	p.sees("the popup", func() bool { return p.state.Address == s.URL+"/popup" && len(p.state.Targets) == 2 })
	p.set(func() { p.picture.Data = nil })
	p.sees("its picture", func() bool { return p.picture.Data != nil })
	p.does(contract.ViewSwitch{TargetID: tab.ID})
	p.sees("the first tab", func() bool { return p.state.Address == s.URL+"/next" })
	p.requests <- contract.ViewControl{Take: true}
	p.requests <- contract.ViewResize{Size: contract.ViewSize{Width: 100, Height: 100}} // received when the one before is done
	mu.Lock()
	if taken != 1 {
		t.Errorf("control was taken %d times", taken)
	}
	mu.Unlock()
	p.sees("a small picture", func() bool {
		c, err := jpeg.DecodeConfig(bytes.NewReader(p.picture.Data))
		return err == nil && c.Width <= 100
	})
	// Another view of the same tab comes and goes.
	other := &person{t: t, requests: make(chan contract.ViewRequest), opened: make(chan contract.ViewOpened, 1), over: b.Done(), changed: make(chan struct{})}
	briefly, leave := context.WithCancel(ctx)
	left := make(chan error)
	go func() { _, err := Show(briefly, o, other); left <- err }() // ends with briefly
	other.sees("another picture", func() bool { return other.picture.Data != nil })
	leave()
	<-left
	p.set(func() { p.picture.Data = nil })
	p.press(150, 20)
	p.does(contract.ViewText{Text: "still"})
	p.sees("pictures after the other has left", func() bool { return p.picture.Data != nil && p.state.Title == "typed still" })
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if taken != 0 {
		t.Error("control was not given back")
	}
}
