//go:build unix

package target_test

import (
	"bytes"
	"context"
	"fmt"
	"image/jpeg"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// A view and a recording watch a tab at once. Whoever comes gets a picture, although the page stands still, and whoever leaves takes none from
// the others.
func TestCastHasManyConsumers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	in, out := chromiumtest.Start(t)
	b, err := target.Open(ctx, in, out, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tab := b.Tabs()[0]
	colours := 0
	draw := func() {
		t.Helper()
		colours++
		code := fmt.Sprintf("document.documentElement.style.background = 'hsl(%d 90%% 50%%)'", colours*40)
		if _, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code}); err != nil {
			t.Fatal(err)
		}
	}
	join := func(width, height int64) (chan target.Frame, func()) {
		t.Helper()
		frames := make(chan target.Frame, 100)
		stop, err := tab.Cast(ctx, target.CastOptions{Width: width, Height: height, Quality: 60}, func(f target.Frame) {
			select {
			case frames <- f:
			default:
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return frames, stop
	}
	gets := func(who string, frames chan target.Frame, wide func(width int) bool) {
		t.Helper()
		for {
			select {
			case f := <-frames:
				c, err := jpeg.DecodeConfig(bytes.NewReader(f.Data))
				if err != nil || f.Width < 300 {
					t.Fatalf("%s: %v, %v", who, err, f.Width)
				}
				if wide(c.Width) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%s gets no such picture", who)
			}
		}
	}
	film, endFilm := join(1024, 768)
	defer endFilm()
	gets("the film", film, func(w int) bool { return w > 500 })
	view, leave := join(200, 200)
	gets("the view", view, func(w int) bool { return w > 500 }) // the larger size holds
	gets("the film beside the view", film, func(w int) bool { return w > 500 })
	draw()
	gets("the film of a change", film, func(w int) bool { return w > 500 })
	leave()
	leave() // does nothing more
	for len(film) > 0 {
		<-film
	}
	draw()
	gets("the film after the view", film, func(w int) bool { return w > 500 })
	endFilm()
	alone, end := join(200, 200)
	defer end()
	gets("who is alone", alone, func(w int) bool { return w <= 200 })
}
