package record

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

const (
	// maxFrames is the number of pictures of an animation.
	maxFrames = 150
	// gifWidth is its width in pixels.
	gifWidth = 800
	// maxGIFHeight is its maximum height: a narrow window would make one of gigabytes.
	maxGIFHeight = 1600
	// gifDelay is how long a picture is shown, in hundredths of a second.
	gifDelay = 150
	// captionHeight is the height of a line of text under a picture.
	captionHeight = 24
)

// frame is a picture of an animation, as the browser has taken it.
type frame struct {
	jpeg    []byte
	caption string
}

// animate returns an animation of pictures.
func animate(frames []frame) ([]byte, error) {
	if len(frames) == 0 {
		return nil, errors.New("there are no pictures")
	}
	out := &gif.GIF{}
	var size image.Rectangle
	for i, f := range frames {
		c, err := jpeg.DecodeConfig(bytes.NewReader(f.jpeg))
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		if c.Width <= 0 || c.Height <= 0 || c.Width > 10_000 || c.Height > 10_000 {
			return nil, fmt.Errorf("picture %d can't be used: it has %d×%d pixels", i+1, c.Width, c.Height)
		}
		src, err := jpeg.Decode(bytes.NewReader(f.jpeg))
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		if i == 0 {
			size = image.Rect(0, 0, gifWidth, min(max(1, gifWidth*c.Height/c.Width), maxGIFHeight)+captionHeight)
		}
		full := image.NewRGBA(size)
		draw.Draw(full, size, image.White, image.Point{}, draw.Src)
		// A picture of another size keeps its shape.
		b := src.Bounds()
		room := size.Dy() - captionHeight
		w, h := gifWidth, max(1, gifWidth*b.Dy()/b.Dx())
		if h > room {
			w, h = max(1, room*b.Dx()/b.Dy()), room
		}
		draw.ApproxBiLinear.Scale(full, image.Rect(0, 0, w, h), src, b, draw.Src, nil)
		write(full, f.caption, size.Dy()-8)
		p := image.NewPaletted(size, palette.Plan9)
		draw.Draw(p, size, full, image.Point{}, draw.Src)
		out.Image, out.Delay = append(out.Image, p), append(out.Delay, gifDelay)
	}
	out.Delay[len(out.Delay)-1] = 2 * gifDelay
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// write writes a line of text.
func write(to draw.Image, text string, y int) {
	face := basicfont.Face7x13
	most := (gifWidth - 16) / face.Advance
	line, _, _ := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > most {
		line = string(r[:most-3]) + "..."
	}
	d := font.Drawer{Dst: to, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(8, y)}
	d.DrawString(line)
}
