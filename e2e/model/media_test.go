package model_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/vendors"
)

// An image that is too large for a message travels by reference: the log holds its digest, the provider fetches its bytes
// from the host, and the vendor gets them in each request, also in those of a later process.
func TestImageByReference(t *testing.T) {
	t.Parallel()
	img := image.NewNRGBA(image.Rect(0, 0, 700, 700))
	noise := rand.NewChaCha8([32]byte{1})
	if _, err := noise.Read(img.Pix); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if b.Len() < 3<<19 {
		t.Fatalf("the image has %d bytes, which could travel inline", b.Len())
	}
	look := vendors.Call{Name: "view_image", Args: map[string]any{"path": "noise.png", "detail": "original"}}
	s := serve(t, "openai", vendors.Answer{Calls: []vendors.Call{look}}, vendors.Answer{Text: "noise"}, vendors.Answer{Text: "still noise"})
	r := configured(t, block("openai", s.URL, ""))
	r.Write("noise.png", b.String())
	r.OK("exec", "--model", "openai", "what is on it?")
	r.OK("resume", "--last", "and now?")
	whole := base64.StdEncoding.EncodeToString(b.Bytes())
	requests := s.Requests()
	for n, req := range requests[1:] {
		if strings.Count(string(req.Raw), whole) != 1 {
			t.Errorf("request %d of %d bytes does not hold the image once", n+2, len(req.Raw))
		}
	}
	log := r.OK("threads", "show", "--events", last(t, r)).Stdout
	if strings.Contains(log, whole[:1000]) || !strings.Contains(log, `"artifact":"`) {
		t.Errorf("the log of %d bytes holds the image itself", len(log))
	}
}
