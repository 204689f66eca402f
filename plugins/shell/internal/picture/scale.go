package picture

import (
	"image"
	"image/draw"
	"math"
)

// scale scales an image down with a triangle filter. It keeps only as many rows of the source as one row of the result needs, because
// the usual two-pass implementations take too much memory for large images.
func scale(src image.Image, w, h int) *image.RGBA {
	b := src.Bounds()
	across, along := kernel(b.Dx(), w), kernel(b.Dy(), h)
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	row := image.NewRGBA(image.Rect(0, 0, b.Dx(), 1))
	cache := map[int][]float32{} // horizontally scaled source rows
	var spare [][]float32
	sum := make([]float32, w*4)
	for y, rows := range along {
		for old, line := range cache {
			if old < rows.first {
				spare = append(spare, line)
				delete(cache, old)
			}
		}
		clear(sum)
		for i, weight := range rows.weights {
			line, ok := cache[rows.first+i]
			if !ok {
				if n := len(spare); n > 0 {
					line, spare = spare[n-1], spare[:n-1]
				} else {
					line = make([]float32, w*4)
				}
				draw.Draw(row, row.Bounds(), src, image.Pt(b.Min.X, b.Min.Y+rows.first+i), draw.Src)
				scaleRow(line, row.Pix, across)
				cache[rows.first+i] = line
			}
			for x, v := range line {
				sum[x] += weight * v
			}
		}
		out := dst.Pix[y*dst.Stride:]
		for x, v := range sum {
			out[x] = uint8(min(255, max(0, v+0.5)))
		}
	}
	return dst
}

func scaleRow(dst []float32, src []uint8, across []window) {
	for x, cols := range across {
		var r, g, b, a float32
		for i, weight := range cols.weights {
			p := src[(cols.first+i)*4:]
			r += weight * float32(p[0])
			g += weight * float32(p[1])
			b += weight * float32(p[2])
			a += weight * float32(p[3])
		}
		dst[x*4], dst[x*4+1], dst[x*4+2], dst[x*4+3] = r, g, b, a
	}
}

// window contains the source pixels of one pixel of the result along one axis. The sum of the weights is 1.
type window struct {
	first   int
	weights []float32
}

// kernel returns the windows for scaling m pixels to n.
func kernel(m, n int) []window {
	ratio := float64(m) / float64(n)
	support := max(ratio, 1)
	out := make([]window, n)
	for i := range out {
		center := (float64(i) + 0.5) * ratio
		first, last := max(0, int(math.Floor(center-support))), min(m, int(math.Ceil(center+support)))
		weights := make([]float32, last-first)
		var sum float64
		for j := range weights {
			d := math.Abs((float64(first+j)+0.5)-center) / support
			v := max(0, 1-d)
			weights[j] = float32(v)
			sum += v
		}
		for j := range weights {
			weights[j] /= float32(sum)
		}
		out[i] = window{first: first, weights: weights}
	}
	return out
}
