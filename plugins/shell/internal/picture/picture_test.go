package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"golang.org/x/image/webp"
)

func TestFit(t *testing.T) {
	type size [2]int
	tests := []struct{ from, high, original size }{
		{size{10, 10}, size{10, 10}, size{10, 10}},
		{size{4000, 2000}, size{2048, 1024}, size{4000, 2000}},
		{size{1000, 5000}, size{410, 2048}, size{1000, 5000}},
		{size{2048, 2048}, size{1600, 1600}, size{2048, 2048}},
		{size{7000, 7000}, size{1600, 1600}, size{3200, 3200}},
		{size{1, 1}, size{1, 1}, size{1, 1}},
		{size{100000, 3}, size{2048, 1}, size{6000, 1}},
	}
	for _, tt := range tests {
		for _, b := range []struct {
			name   string
			budget Budget
			want   size
		}{{"high", High(), tt.high}, {"original", Original(), tt.original}} {
			if w, h := Fit(tt.from[0], tt.from[1], b.budget); (size{w, h}) != b.want {
				t.Errorf("%s: %v fits as %dx%d, want %v", b.name, tt.from, w, h, b.want)
			}
		}
	}
}

// Every square that is too large becomes the same one: rounding errors must not cost a whole row of squares.
func TestFitOfSquares(t *testing.T) {
	for n := 1601; n < 9000; n++ {
		if w, h := Fit(n, n, High()); w != 1600 || h != 1600 {
			t.Errorf("%dx%d fits as %dx%d", n, n, w, h)
		}
	}
}

func TestFitIsWithinTheBudget(t *testing.T) {
	for w := 1; w < 9000; w += 97 {
		for h := 1; h < 9000; h += 89 {
			for _, b := range []Budget{High(), Original()} {
				fw, fh := Fit(w, h, b)
				if !b.fits(fw, fh) || fw > w || fh > h || fw < 1 || fh < 1 {
					t.Fatalf("%dx%d fits as %dx%d in %+v", w, h, fw, fh, b)
				}
			}
		}
	}
}

func solid(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := 0; i < len(img.Pix); i += 4 {
		copy(img.Pix[i:], []byte{200, 100, 50, 255})
	}
	return img
}

func pngOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, solid(w, h)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func jpegOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, solid(w, h), nil); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gifOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := gif.Encode(&buf, solid(w, h), nil); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// webpOf writes a lossless WebP file of one colour: each of its prefix codes has a single symbol, so that the pixels take
// no bits at all.
func webpOf(w, h int, chunks ...[]byte) []byte {
	var acc uint64
	var n uint
	var bits []byte
	put := func(v uint64, count uint) {
		acc |= v << n
		for n += count; n >= 8; n -= 8 {
			bits = append(bits, byte(acc))
			acc >>= 8
		}
	}
	put(0x2f, 8)
	put(uint64(w-1), 14)
	put(uint64(h-1), 14)
	put(0, 1+3)                                          // no alpha, version 0
	put(0, 3)                                            // no transform, no colour cache, no meta codes
	for _, symbol := range []uint64{100, 200, 50, 255} { // green, red, blue, alpha
		put(0b101, 3) // simple code, one symbol, of 8 bits
		put(symbol, 8)
	}
	put(0b0001, 4) // distance: simple code, one symbol, of 1 bit: 0
	put(0, 7)
	riff := func(id string, body []byte) []byte {
		out := binary.LittleEndian.AppendUint32([]byte(id), uint32(len(body)))
		out = append(out, body...)
		return append(out, make([]byte, len(body)%2)...)
	}
	body := []byte("WEBP")
	for _, c := range chunks {
		body = append(body, c...)
	}
	return riff("RIFF", append(body, riff("VP8L", bits)...))
}

func TestPrepare(t *testing.T) {
	tests := []struct {
		name   string
		data   []byte
		budget Budget
		media  string
		w, h   int
		same   bool
	}{
		{"small png", pngOf(t, 10, 10), High(), "image/png", 10, 10, true},
		{"small jpeg", jpegOf(t, 10, 10), High(), "image/jpeg", 10, 10, true},
		{"small webp", webpOf(10, 10), High(), "image/webp", 10, 10, true},
		{"gif, high", gifOf(t, 1, 1), High(), "image/png", 1, 1, false},
		{"gif, original", gifOf(t, 1, 1), Original(), "image/png", 1, 1, false},
		{"wide png", pngOf(t, 4000, 2000), High(), "image/png", 2048, 1024, false},
		{"wide png, original", pngOf(t, 4000, 2000), Original(), "image/png", 4000, 2000, true},
		{"tall jpeg", jpegOf(t, 1000, 5000), High(), "image/jpeg", 410, 2048, false},
		{"large gif", gifOf(t, 2100, 10), High(), "image/png", 2048, 10, false},
		// The sheet's "WebP stays WebP" needs an encoder that does not exist for Go.
		{"wide webp", webpOf(3000, 100), High(), "image/png", 2048, 68, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Prepare(tt.data, tt.budget)
			if err != nil {
				t.Fatal(err)
			}
			if p.MediaType != tt.media || p.Width != tt.w || p.Height != tt.h {
				t.Errorf("got %s %dx%d, want %s %dx%d", p.MediaType, p.Width, p.Height, tt.media, tt.w, tt.h)
			}
			if same := bytes.Equal(p.Data, tt.data); same != tt.same {
				t.Errorf("unchanged = %v, want %v", same, tt.same)
			}
			f, _ := formatOf(p.Data)
			img, err := f.decode(p.Data)
			if err != nil {
				t.Fatalf("result: %v", err)
			}
			if b := img.Bounds(); b.Dx() != tt.w || b.Dy() != tt.h || f.mediaType != tt.media {
				t.Errorf("result is %s %v", f.mediaType, b)
			}
			r, g, b, a := img.At(tt.w/2, tt.h/2).RGBA()
			near := func(got uint32, want int) bool { d := int(got>>8) - want; return d > -12 && d < 12 }
			want := [3]int{200, 100, 50}
			if bytes.HasPrefix(tt.data, []byte("GIF8")) {
				want = [3]int{204, 68, 68} // the nearest of its palette
			}
			if !near(r, want[0]) || !near(g, want[1]) || !near(b, want[2]) || a != 0xffff {
				t.Errorf("colour = %d %d %d %d, want %v", r>>8, g>>8, b>>8, a>>8, want)
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	bmp := append([]byte("BM"), make([]byte, 60)...)
	huge := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), 60000)
	huge = append(binary.BigEndian.AppendUint32(huge, 60000), 8, 2, 0, 0, 0)
	huge = binary.BigEndian.AppendUint32(huge, 0xd1fbdab6)
	for name, data := range map[string][]byte{
		"bmp": bmp, "svg": []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), "text": []byte("hello, world"), "empty": nil,
		"cut png": pngOf(t, 10, 10)[:60], "cut jpeg": jpegOf(t, 10, 10)[:300], "cut webp": webpOf(10, 10)[:22], "only magic": []byte("GIF89a"),
	} {
		if _, err := Prepare(data, High()); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: error = %v, want %v", name, err, ErrUndecodable)
		}
	}
	if _, err := Prepare(huge, High()); err == nil {
		t.Error("60000 x 60000 pixels were accepted")
	}
}

func TestScaleKeepsHalves(t *testing.T) {
	src := image.NewNRGBA(image.Rect(5, 7, 405, 207))
	for y := 7; y < 207; y++ {
		for x := 5; x < 405; x++ {
			c := color.NRGBA{255, 0, 0, 255}
			if x >= 205 {
				c = color.NRGBA{0, 0, 255, 0}
			}
			src.SetNRGBA(x, y, c)
		}
	}
	dst := scale(src, 40, 20)
	if got := dst.RGBAAt(2, 10); got != (color.RGBA{255, 0, 0, 255}) {
		t.Errorf("left = %v", got)
	}
	if got := dst.RGBAAt(37, 10); got != (color.RGBA{}) {
		t.Errorf("right = %v, want transparent", got)
	}
}

// profile is the beginning of an ICC profile, long enough to be split in a JPEG.
func profile(space string) []byte {
	p := bytes.Repeat([]byte{7, 1, 9}, 30000)
	copy(p[16:], space)
	return p
}

func TestMetadataSurvives(t *testing.T) {
	exif := []byte("MM\x00*\x00\x00\x00\x08\x00\x00")
	rgb := metadata{profile: profile("RGB "), exif: exif}
	cmyk := metadata{profile: profile("CMYK"), exif: exif}
	chunk := func(id string, body []byte) []byte {
		out := append(binary.LittleEndian.AppendUint32([]byte(id), uint32(len(body))), body...)
		return append(out, make([]byte, len(body)%2)...)
	}
	for _, tt := range []struct {
		name string
		data []byte
		read func([]byte) metadata
		want metadata
	}{
		{"jpeg", rgb.insertJPEG(jpegOf(t, 3000, 10)), jpegMetadata, rgb},
		{"png", rgb.insertPNG(pngOf(t, 3000, 10)), pngMetadata, rgb},
		{"webp", webpOf(3000, 10, chunk("ICCP", rgb.profile), chunk("EXIF", append([]byte(exifPrefix), exif...))), pngMetadata, rgb},
		{"jpeg in other colours", cmyk.insertJPEG(jpegOf(t, 3000, 10)), jpegMetadata, metadata{exif: exif}},
		{"png without any", pngOf(t, 3000, 10), pngMetadata, metadata{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Prepare(tt.data, High())
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != 2048 {
				t.Fatalf("width = %d", p.Width)
			}
			got := tt.read(p.Data)
			if !bytes.Equal(got.profile, tt.want.profile) || !bytes.Equal(got.exif, tt.want.exif) {
				t.Errorf("profile of %d bytes, exif %q; want %d bytes, %q", len(got.profile), got.exif, len(tt.want.profile), tt.want.exif)
			}
			if f, _ := formatOf(p.Data); f.mediaType != p.MediaType {
				t.Errorf("media type %s, data is %s", p.MediaType, f.mediaType)
			} else if _, err := f.decode(p.Data); err != nil {
				t.Errorf("result: %v", err)
			}
		})
	}
}

func TestWebPOfTestsIsReal(t *testing.T) {
	img, err := webp.Decode(bytes.NewReader(webpOf(3, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if got := img.Bounds(); got.Dx() != 3 || got.Dy() != 2 {
		t.Errorf("bounds = %v", got)
	}
}

func FuzzPrepare(f *testing.F) {
	f.Add(pngOf(f, 2, 2))
	f.Add(jpegOf(f, 2, 2))
	f.Add(gifOf(f, 2, 2))
	f.Add(webpOf(2, 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		for _, read := range []func([]byte) metadata{jpegMetadata, pngMetadata, webpMetadata} {
			read(data)
		}
		if img, ok := formatOf(data); ok {
			if c, err := img.config(data); err != nil || c.Width*c.Height > 1<<20 {
				return
			}
		}
		Prepare(data, Budget{MaxSide: 16, MaxPatches: 4})
	})
}

func BenchmarkScale(b *testing.B) {
	src := solid(7000, 7000)
	b.ReportAllocs()
	for b.Loop() {
		scale(src, 1600, 1600)
	}
}
