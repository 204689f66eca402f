package record

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"strings"
	"testing"
	"time"
)

// What pages choose, such as addresses and headers, does not make an archive grow without bounds.
func TestArchiveIsBounded(t *testing.T) {
	a := newArchive()
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		var e requestEvent
		e.ID, e.Request.URL = fmt.Sprint(i), "http://a/?q="+long
		a.began("s", "page", e)
		a.answered("s", responseEvent{ID: e.ID, Response: response{Status: 200, Headers: map[string]string{"X": long}}})
		redirect := e
		redirect.Redirect = &response{Status: 302, Headers: map[string]string{"X": long}}
		a.began("s", "page", redirect)
	}
	size := 0
	for _, e := range a.entries {
		if size += len(e.Request.URL) + len(e.Response.Redirect); e.Response.Status != 0 && e.Response.Status != 200 && e.Response.Status != 302 {
			t.Errorf("%+v", e.Response)
		}
		for _, list := range [][]pair{e.Request.Query, e.Request.Headers, e.Response.Headers} {
			for _, p := range list {
				size += len(p.Name) + len(p.Value)
			}
		}
	}
	if len(a.entries) == 0 || a.dropped == 0 || size > maxHeads {
		t.Errorf("%d entries of %d bytes, %d dropped", len(a.entries), size, a.dropped)
	}
}

func TestTraceIsBounded(t *testing.T) {
	var x trace
	long := strings.Repeat("x", 1<<20)
	x.add(rowPages, "page", long, time.Time{}, time.Time{}, map[string]string{"url": long})
	if e := x.events[0]; len(e.Name) > maxTraced+3 || len(e.Args["url"]) > maxTraced+3 {
		t.Errorf("%d, %d bytes", len(e.Name), len(e.Args["url"]))
	}
}

// A window that is narrow and high does not make a picture that is a hundred times as large.
func TestNarrowPicture(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 10, 2000)), nil); err != nil {
		t.Fatal(err)
	}
	out, err := animate([]frame{{b.Bytes(), "narrow"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := gif.DecodeConfig(bytes.NewReader(out))
	if err != nil || c.Height != maxGIFHeight+captionHeight {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := animate([]frame{{jpeg: []byte("no picture")}}); err == nil {
		t.Error("no error")
	}
}
