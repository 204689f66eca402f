package picture

import "math"

// Budget bounds an image by its longer side and by the number of 32-pixel squares that cover it, which is how models
// count.
type Budget struct{ MaxSide, MaxPatches int }

// High is the usual budget.
func High() Budget { return Budget{MaxSide: 2048, MaxPatches: 2500} }

// Original is the budget for images that should be seen as they are.
func Original() Budget { return Budget{MaxSide: 6000, MaxPatches: 10000} }

const patch = 32

func (b Budget) holds(w, h int) bool {
	return w <= b.MaxSide && h <= b.MaxSide && ((w+patch-1)/patch)*((h+patch-1)/patch) <= b.MaxPatches
}

// Fit returns the largest size that the budget allows an image of w x h pixels. It never makes one larger.
func Fit(w, h int, b Budget) (int, int) {
	if b.holds(w, h) {
		return w, h
	}
	if longer := max(w, h); longer > b.MaxSide {
		s := float64(b.MaxSide) / float64(longer)
		w, h = atLeastOne(math.Round(float64(w)*s)), atLeastOne(math.Round(float64(h)*s))
		if b.holds(w, h) {
			return w, h
		}
	}
	fw, fh := float64(w), float64(h)
	s := math.Sqrt(patch * patch * float64(b.MaxPatches) / (fw * fh))
	// So many pixels may still touch one more row or column of squares than the budget has: down to whole squares along
	// the side where that costs more.
	wide, high := fw*s/patch, fh*s/patch
	s *= min(down(wide)/wide, down(high)/high)
	return atLeastOne(down(fw * s)), atLeastOne(down(fh * s))
}

// down is the floor of x, where a whole number that came out a hair too small counts as whole.
func down(x float64) float64 { return math.Floor(x + 1e-9) }

func atLeastOne(x float64) int { return max(1, int(x)) }
