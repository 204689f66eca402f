package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/chromedp/cdproto/browser"
	protocol "github.com/chromedp/cdproto/cdp"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

const (
	// maxBytes is the maximum size of a download.
	maxBytes = 512 << 20
	// maxTotal is the maximum size of all that nobody has looked at.
	maxTotal = 1 << 30
	// maxDownloads is the number of downloads that nobody has looked at; more are cancelled.
	maxDownloads = 20
)

// Download is a file that a page has sent.
type Download struct {
	ID   string // also its name in the folder
	Name string // safe; see [Name]
	URL  string
	Page string // address of the document in the tab that it came from; may be empty

	Total, Received float64 // bytes; Total is 0 if it is not known
	Done            bool
	Failure         string // why it has no file

	told bool // that it goes on
}

// Downloads are those of a browser.
type Downloads struct {
	root   *cdp.Session
	folder string
	pageOf func(frame string) (page string, mine bool)
	stop   func()

	mu struct {
		sync.Mutex
		list    []*Download
		dropped int           // because there were too many
		changed chan struct{} // closed and replaced with every change
	}
}

// Watch has the browser save downloads in a new folder below one that it may write, under names that pages can't choose.
func Watch(ctx context.Context, b *target.Browser, folder string) (*Downloads, error) {
	d := newDownloads(b.Root(), folder, b.PageOf)
	if err := os.MkdirAll(filepath.Join(folder, sub), 0o700); err != nil {
		return nil, err
	}
	d.stop = b.Observe(d.event)
	_, err := protocol.Call(ctx, d.root, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllowAndName, DownloadPath: filepath.Join(folder, sub), EventsEnabled: new(true),
		BrowserContextID: protocol.BrowserContextID(b.Context()),
	})
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// Refuse cancels the downloads of our tabs in a browser that gantry did not start: it would save them in a folder of its user, whose own are
// left alone.
func Refuse(ctx context.Context, b *target.Browser) (*Downloads, error) {
	d := newDownloads(b.Root(), "", b.PageOf)
	d.stop = b.Observe(d.refuse)
	// Without it, downloads are not reported.
	_, err := protocol.Call(ctx, d.root, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDefault, EventsEnabled: new(true),
	})
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *Downloads) refuse(e cdp.Event, t *target.Tab) {
	var p struct {
		GUID string `json:"guid"`
		URL  string `json:"url"`
		Name string `json:"suggestedFilename"`
	}
	if t == nil || e.Method != "Page.downloadWillBegin" || e.Decode(&p) != nil {
		return
	}
	d.cancel(p.GUID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.mu.list) >= maxDownloads {
		d.mu.dropped++
		return
	}
	d.mu.list = append(d.mu.list, &Download{
		ID: p.GUID, Name: Name(p.Name), URL: p.URL, Done: true,
		Failure: "it was cancelled, because gantry did not start this browser (`cdp_url`), which would save the file in a folder of its user",
	})
	d.notify()
}

func newDownloads(root *cdp.Session, folder string, pageOf func(frame string) (page string, mine bool)) *Downloads {
	d := &Downloads{root: root, folder: folder, pageOf: pageOf}
	d.mu.changed = make(chan struct{})
	return d
}

// sub is the folder of the downloads in that of the browser.
const sub = "downloads"

func (d *Downloads) event(e cdp.Event, _ *target.Tab) {
	switch e.Method {
	case "Browser.downloadWillBegin":
		var p browser.EventDownloadWillBegin
		if e.Decode(&p) != nil {
			return
		}
		x := &Download{ID: p.GUID, Name: Name(p.SuggestedFilename), URL: p.URL}
		var mine bool
		if x.Page, mine = d.pageOf(string(p.FrameID)); !mine {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.mu.list) >= maxDownloads || !filepath.IsLocal(p.GUID) || filepath.Base(p.GUID) != p.GUID {
			d.mu.dropped++
			d.cancel(p.GUID)
			return
		}
		d.mu.list = append(d.mu.list, x)
		d.notify()
	case "Browser.downloadProgress":
		var p browser.EventDownloadProgress
		if e.Decode(&p) != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, x := range d.mu.list {
			if x.ID != p.GUID || x.Done {
				continue
			}
			x.Total, x.Received = p.TotalBytes, p.ReceivedBytes
			switch {
			case p.State == browser.DownloadProgressStateCompleted:
				x.Done = true
			case p.State == browser.DownloadProgressStateCanceled:
				x.Done, x.Failure = true, "it was interrupted"
			case max(p.TotalBytes, p.ReceivedBytes) > maxBytes:
				x.Done, x.Failure = true, fmt.Sprintf("it is larger than %d MB", maxBytes>>20)
				d.cancel(x.ID)
			case d.total() > maxTotal:
				x.Done, x.Failure = true, fmt.Sprintf("all downloads together are larger than %d MB", maxTotal>>20)
				d.cancel(x.ID)
			default:
				return // only progress
			}
			d.notify()
		}
	}
}

// total returns how much there is of the downloads that have not failed, in bytes. The caller has locked d.mu.
func (d *Downloads) total() (n float64) {
	for _, x := range d.mu.list {
		if x.Failure == "" {
			n += x.Received
		}
	}
	return n
}

func (d *Downloads) cancel(id string) {
	_ = d.root.Post(browser.CommandCancelDownload, browser.CancelDownloadParams{GUID: id})
}

// notify wakes all who wait. The caller has locked d.mu.
func (d *Downloads) notify() {
	close(d.mu.changed)
	d.mu.changed = make(chan struct{})
}

// Wait waits until all downloads have ended, except for those of which Take has told that they go on. An end of ctx is no error: others go on in the background.
func (d *Downloads) Wait(ctx context.Context) {
	for {
		d.mu.Lock()
		running, changed := false, d.mu.changed
		for _, x := range d.mu.list {
			running = running || !x.Done && !x.told
		}
		d.mu.Unlock()
		if !running {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Take returns the downloads that have ended, once each, those that go on, and how many were cancelled because there were too many. The
// caller calls Remove for each that has ended.
func (d *Downloads) Take() (ended, running []Download, dropped int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keep []*Download
	for _, x := range d.mu.list {
		if x.Done {
			ended = append(ended, *x)
		} else {
			x.told = true
			running, keep = append(running, *x), append(keep, x)
		}
	}
	dropped, d.mu.dropped = d.mu.dropped, 0
	d.mu.list = keep
	return ended, running, dropped
}

// Ended returns how many downloads have ended that nobody has taken.
func (d *Downloads) Ended() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, x := range d.mu.list {
		if x.Done {
			n++
		}
	}
	return n
}

// Open opens the file of a download that has ended. The browser may have put anything in its place, which may lead elsewhere or block.
func (d *Downloads) Open(x Download) (*os.File, error) {
	root, err := os.OpenRoot(d.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.Join(sub, x.ID)
	if i, err := root.Lstat(name); err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(err, errNoFile(x))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() || i.Size() > maxBytes {
		return nil, errors.Join(err, f.Close(), errNoFile(x))
	}
	return f, nil
}

func errNoFile(x Download) error {
	return fmt.Errorf("the browser has left no file of %q: %w", x.Name, fs.ErrInvalid)
}

// Remove removes the file of a download.
func (d *Downloads) Remove(x Download) error {
	if d.folder == "" {
		return nil
	}
	root, err := os.OpenRoot(d.folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(filepath.Join(sub, x.ID)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
