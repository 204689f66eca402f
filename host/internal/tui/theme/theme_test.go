package theme

import (
	"math"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
)

// luminance is that of WCAG 2.
func luminance(c [3]uint8) float64 {
	var l [3]float64
	for i, v := range c {
		if l[i] = float64(v) / 255; l[i] <= 0.04045 {
			l[i] /= 12.92
		} else {
			l[i] = math.Pow((l[i]+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
}

// Every colour can be read on the background that it is for.
func TestContrast(t *testing.T) {
	for name, test := range map[string]struct {
		colors     rgb
		background [3]uint8
	}{"light": {light(), [3]uint8{255, 255, 255}}, "dark": {dark(), [3]uint8{0x1e, 0x1e, 0x1e}}} {
		for c := term.Black; c <= term.Gray; c++ {
			a, b := luminance(test.colors[c])+0.05, luminance(test.background)+0.05
			if ratio := max(a, b) / min(a, b); ratio < 4.5 {
				t.Errorf("colour %d of %s has a contrast of %.1f", c, name, ratio)
			}
		}
	}
}

func TestPalette(t *testing.T) {
	for name, want := range map[string]string{"": "\x1b[31mx\x1b[m", "terminal": "\x1b[31mx\x1b[m", "light": "\x1b[38;2;180;35;24mx\x1b[m", "mono": "x"} {
		p := Palette(name)
		if got := term.Text("x", Bad).Paint(&p); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	p := Palette("mono")
	if got := term.Text("x", Accent).Paint(&p); !strings.Contains(got, "[1m") {
		t.Errorf("%q", got)
	}
}
