package action

import (
	"context"
	"fmt"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// maxSide is the length of a side of a picture, in pixels. Models see no details of larger ones, and the browser can't draw much larger ones.
const maxSide = 8000

// Picture takes a screenshot of what is in view in a tab, or of the whole page.
func Picture(ctx context.Context, t *target.Tab, full bool) (Image, error) {
	var image Image
	err := t.Do(ctx, func(ctx context.Context) (err error) {
		if !full {
			image, err = shoot(ctx, t, nil, false)
			return err
		}
		m, err := protocol.Call(ctx, t.Session, page.GetLayoutMetrics, protocol.Empty{})
		if err == nil && m.CSSContentSize != nil {
			image, err = shoot(ctx, t, &page.Viewport{Width: m.CSSContentSize.Width, Height: m.CSSContentSize.Height, Scale: 1}, true)
		}
		return err
	})
	return image, err
}

// Picture takes a screenshot of an element, which it scrolls into view.
func (s *Session) Picture(ctx context.Context, t *target.Tab, number int) (Image, error) {
	var image Image
	err := t.Do(ctx, func(ctx context.Context) error {
		p, err := s.locate(ctx, t, number, true)
		if err != nil {
			return err
		}
		m, err := protocol.Call(ctx, t.Session, page.GetLayoutMetrics, protocol.Empty{})
		if err != nil {
			return err
		}
		clip := page.Viewport{X: p.Box[0], Y: p.Box[1], Width: p.Box[2], Height: p.Box[3], Scale: 1}
		beyond := true
		if v := m.CSSVisualViewport; v != nil {
			clip.X, clip.Y = clip.X+v.PageX, clip.Y+v.PageY
			beyond = p.Box[0] < 0 || p.Box[1] < 0 || p.Box[0]+p.Box[2] > v.ClientWidth || p.Box[1]+p.Box[3] > v.ClientHeight
		}
		image, err = shoot(ctx, t, &clip, beyond)
		return err
	})
	return image, err
}

// shoot takes a screenshot of a part of the page; nil: of what is in view.
func shoot(ctx context.Context, t *target.Tab, clip *page.Viewport, beyond bool) (Image, error) {
	const quality = 80
	image := Image{MediaType: "image/jpeg"}
	if clip != nil && (clip.Width > maxSide || clip.Height > maxSide) {
		image.Note = fmt.Sprintf(" (the first %d pixels of %.0f x %.0f)", maxSide, clip.Width, clip.Height)
		clip.Width, clip.Height = min(clip.Width, maxSide), min(clip.Height, maxSide)
	}
	s, err := protocol.Call(ctx, t.Session, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatJpeg, Quality: new(int64(quality)), Clip: clip, CaptureBeyondViewport: new(beyond), OptimizeForSpeed: new(true),
	})
	image.Data = s.Data
	return image, err
}
