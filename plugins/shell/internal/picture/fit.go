package picture

import "math"

// Budget limits the longer side of an image and the number of 32-pixel squares that cover it, the unit in which models count.
type Budget struct{ MaxSide, MaxPatches int }

// High returns the default budget.
func High() Budget { return Budget{MaxSide: 2048, MaxPatches: 2500} }

// Original returns the budget for images in their original size.
func Original() Budget { return Budget{MaxSide: 6000, MaxPatches: 10000} }

const tile = 32

func (b Budget) fits(w, h int) bool {
	return w <= b.MaxSide && h <= b.MaxSide && ((w+tile-1)/tile)*((h+tile-1)/tile) <= b.MaxPatches
}

// Fit returns the largest size within the budget for an image of w x h pixels. It never enlarges an image.
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
	// An image with that many pixels may need an additional row or column of squares, so round down to whole squares along the
	// side where that shrinks the image more.
	wide, high := fw*s/tile, fh*s/tile
	s *= min(floor(wide)/wide, floor(high)/high)
	return atLeastOne(floor(fw * s)), atLeastOne(floor(fh * s))
}

// floor returns the floor of x, tolerating the rounding error of a whole number.
func floor(x float64) float64 { return math.Floor(x + 1e-9) }

func atLeastOne(x float64) int { return max(1, int(x)) }
