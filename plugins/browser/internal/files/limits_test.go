//go:build unix

package files

import (
	"fmt"
	"io"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Too many downloads, and those that are too large, are cancelled; names that lead elsewhere are not used.
func TestLimits(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	c := cdp.New(r, discard{w}, cdp.Options{})
	defer c.Close()
	d := newDownloads(c.Root(), t.TempDir(), func(frame string) (string, bool) { return "page of " + frame, frame != "theirs" })
	begin := func(id string) {
		d.event(cdp.Event{Method: "Browser.downloadWillBegin", Params: fmt.Appendf(nil, `{"guid":%q,"frameId":"f","url":"http://a/b","suggestedFilename":"b"}`, id)}, nil)
	}
	d.event(cdp.Event{Method: "Browser.downloadWillBegin", Params: []byte(`{"guid":"other","frameId":"theirs","url":"http://a/b","suggestedFilename":"b"}`)}, nil)
	begin("../x")
	begin("..")
	for i := range 25 {
		begin(fmt.Sprint("id", i))
	}
	d.event(cdp.Event{Method: "Browser.downloadProgress", Params: fmt.Appendf(nil, `{"guid":"id0","totalBytes":%d,"receivedBytes":1,"state":"inProgress"}`, maxBytes+1)}, nil)
	d.event(cdp.Event{Method: "Browser.downloadProgress", Params: []byte(`{"guid":"id0","state":"completed"}`)}, nil)
	d.event(cdp.Event{Method: "Browser.downloadProgress", Params: []byte(`{"guid":"id1","totalBytes":5,"receivedBytes":4,"state":"inProgress"}`)}, nil)
	if n := d.Ended(); n != 1 {
		t.Errorf("%d have ended", n)
	}
	ended, running, dropped := d.Take()
	d.Wait(t.Context()) // returns, since it is known that they go on
	if len(ended) != 1 || ended[0].Failure == "" || len(running) != 19 || dropped != 7 || running[0].Received != 4 || running[0].Page != "page of f" {
		t.Errorf("%+v, %+v, %d dropped", ended, running, dropped)
	}
	for _, x := range append(ended, running...) {
		if x.ID == "other" {
			t.Error("a download of another part of the browser is listed")
		}
	}
}

// Downloads that are not too large one by one can't fill a disk together.
func TestTotal(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	c := cdp.New(r, discard{w}, cdp.Options{})
	defer c.Close()
	d := newDownloads(c.Root(), t.TempDir(), func(string) (string, bool) { return "", true })
	for i := range 4 {
		d.event(cdp.Event{Method: "Browser.downloadWillBegin", Params: fmt.Appendf(nil, `{"guid":"id%d","url":"http://a/b","suggestedFilename":"b"}`, i)}, nil)
		d.event(cdp.Event{Method: "Browser.downloadProgress", Params: fmt.Appendf(nil, `{"guid":"id%d","receivedBytes":%d,"state":"inProgress"}`, i, 400<<20)}, nil)
	}
	ended, running, _ := d.Take()
	if len(ended) != 2 || ended[0].ID != "id2" || ended[1].ID != "id3" || ended[1].Failure == "" || len(running) != 2 {
		t.Errorf("%+v, %+v", ended, running)
	}
}

// discard takes what is written to it.
type discard struct{ io.Closer }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
