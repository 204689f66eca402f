package picture

import "math"

// Budget bounds an image by its longer side and by the number of 32-pixel squares that cover it, which is how models
// count.
type Budget struct{ MaxSide, MaxPatches int }

// High is the usual budget.
func High() Budget { return Budget{MaxSide: 2048, MaxPatches: 2500} }

// Original is the budget for images that should be seen as they are.
func Original() Budget { return Budget{MaxSide: 6000, MaxPatches: 10000} }

const tile = 32

func (b Budget) fits(w, h int) bool {
	return w <= b.MaxSide && h <= b.MaxSide && ((w+tile-1)/tile)*((h+tile-1)/tile) <= b.MaxPatches
}

// Fit returns the largest size that the budget allows an image of w x h pixels. It never makes one larger.
func Fit(w, h int, b Budget) (int, int) {
	if b.fits(w, h) {
		return w, h
	}
	if longer := max(w, h); longer > b.MaxSide {
		s := float64(b.MaxSide) / float64(longer)
		w, h = atLeastOne(math.Round(float64(w)*s)), atLeastOne(math.Round(float64(h)*s))
		if b.fits(w, h) {
			return w, h
		}
	}
	fw, fh := float64(w), float64(h)
	s := math.Sqrt(tile * tile * float64(b.MaxPatches) / (fw * fh))
	// So many pixels may still touch one more row or column of squares than the budget has: down to whole squares along
	// the side where that costs more.
	wide, high := fw*s/tile, fh*s/tile
	s *= min(floor(wide)/wide, floor(high)/high)
	return atLeastOne(floor(fw * s)), atLeastOne(floor(fh * s))
}

// floor is the floor of x, where a whole number that came out a hair too small counts as whole.
func floor(x float64) float64 { return math.Floor(x + 1e-9) }

func atLeastOne(x float64) int { return max(1, int(x)) }
