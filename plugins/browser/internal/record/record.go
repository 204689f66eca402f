// Package record keeps what happens in a browser for people: an archive of its requests (HAR 1.2), a trace of actions, pages and requests, an
// animation of its pictures, and a video.
//
// It owns: the formats, their limits, and the masks in them. It must not know: where recordings go, or what starts them. No failure of a
// recording is one of what it records.
//
// Start with [Start].
package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// The kinds of recordings.
const (
	HAR   = "har"
	Trace = "trace"
	GIF   = "gif"
	Video = "video"
)

// Kinds are all kinds.
func Kinds() []string { return []string{HAR, Trace, GIF, Video} }

// File is a finished recording.
type File struct {
	Name, MediaType string
	Data            []byte
}

const (
	// bodyTime limits how long the body of a response may take.
	bodyTime = 5 * time.Second
	// bodiesTime limits how long Stop waits for all that are wanted: a page that hangs answers none of them.
	bodiesTime = 20 * time.Second
	// maxWaiting is the number of bodies that wait to be fetched; more are left out.
	maxWaiting = 512
)

// Recorder records a browser. It is safe for concurrent use.
type Recorder struct {
	kinds  []string
	b      *target.Browser
	unhook func()
	bodies chan wanted
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	archive *archive
	trace   trace
	frames  []frame
	video   video
	stopped bool
}

// wanted is a body to fetch.
type wanted struct {
	session *cdp.Session
	id      string
	entry   *entry
}

// Start records from now on, until Stop is called or the browser is gone.
func Start(b *target.Browser, kinds []string) (*Recorder, error) {
	for _, k := range kinds {
		if !slices.Contains(Kinds(), k) {
			return nil, fmt.Errorf("there is no recording of the kind %q; the kinds are %s", k, strings.Join(Kinds(), ", "))
		}
	}
	if len(kinds) == 0 {
		return nil, errors.New("name what is recorded: " + strings.Join(Kinds(), ", "))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{kinds: kinds, b: b, bodies: make(chan wanted, maxWaiting), cancel: cancel, archive: newArchive(), trace: trace{begin: time.Now()}}
	r.work.Go(func() { r.fetch(ctx) })
	r.unhook = b.Observe(r.event)
	return r, nil
}

// Kinds returns what is recorded.
func (r *Recorder) Kinds() []string { return slices.Clone(r.kinds) }

func (r *Recorder) has(kind string) bool { return slices.Contains(r.kinds, kind) }

// WantsPictures reports whether Picture does anything.
func (r *Recorder) WantsPictures() bool { return r.has(GIF) }

// Picture adds a picture in JPEG to the animation.
func (r *Recorder) Picture(jpeg []byte, caption string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.frames) >= maxFrames {
		return
	}
	r.frames = append(r.frames, frame{jpeg, caption})
}

// Action adds an action, and what came of it, to the trace.
func (r *Recorder) Action(name, outcome string, from, to time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add(rowActions, "action", name, from, to, map[string]string{"outcome": outcome})
}

// event follows the browser.
func (r *Recorder) event(e cdp.Event, tab *target.Tab) {
	method, ok := strings.CutPrefix(e.Method, "Network.")
	if !ok {
		r.page(e, tab)
		return
	}
	in := ""
	if tab != nil {
		in = tab.ID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch method {
	case "requestWillBeSent":
		var p requestEvent
		if e.Decode(&p) == nil {
			r.archive.began(e.Session, in, p)
		}
	case "responseReceived":
		var p responseEvent
		if e.Decode(&p) == nil {
			r.archive.answered(e.Session, p)
		}
	case "loadingFinished", "loadingFailed":
		var p endEvent
		if e.Decode(&p) != nil {
			return
		}
		if x := r.archive.finished(e.Session, p); x != nil && r.has(HAR) && !r.stopped {
			select {
			case r.bodies <- wanted{r.b.SessionOf(e), p.ID, x}:
			default:
				x.Response.Content.Comment = "left out: too many at once"
			}
		}
	}
}

// page notes what happens to pages.
func (r *Recorder) page(e cdp.Event, tab *target.Tab) {
	var p struct {
		URL     string `json:"url"`
		Message string `json:"message"`
		Type    string `json:"type"`
		Frame   struct {
			ID  string `json:"id"`
			URL string `json:"url"`
		} `json:"frame"`
	}
	name, args := "", map[string]string{}
	switch e.Method {
	case "Page.frameNavigated":
		if e.Decode(&p) == nil && tab != nil && p.Frame.ID == tab.ID {
			name, args["url"] = "document", p.Frame.URL
		}
	case "Page.navigatedWithinDocument":
		if e.Decode(&p) == nil {
			name, args["url"] = "address", p.URL
		}
	case "Page.javascriptDialogOpening":
		if e.Decode(&p) == nil {
			name, args["message"] = "dialog "+p.Type, p.Message
		}
	case "Browser.downloadWillBegin":
		if e.Decode(&p) == nil {
			name, args["url"] = "download", p.URL
		}
	case "Target.targetCrashed":
		name = "crash"
	}
	if name == "" {
		return
	}
	if tab != nil {
		args["tab"] = tab.Name()
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add(rowPages, "page", name, now, now, args)
}

// fetch fetches bodies, one after the other, until there are no more or the browser is gone.
func (r *Recorder) fetch(ctx context.Context) {
	for {
		select {
		case w, ok := <-r.bodies:
			if !ok {
				return
			}
			r.body(ctx, w)
		case <-r.b.Done():
			return
		}
	}
}

func (r *Recorder) body(ctx context.Context, w wanted) {
	ctx, cancel := context.WithTimeout(ctx, bodyTime)
	defer cancel()
	b, err := protocol.Call(ctx, w.session, network.GetResponseBody, network.GetResponseBodyParams{RequestID: network.RequestID(w.id)})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		w.entry.Response.Content.Comment = "left out: the browser has it no more"
		return
	}
	r.archive.content(w.entry, b.Body)
}

// end stops following the browser, and waits until the bodies that were wanted are there.
func (r *Recorder) end() {
	r.unhook()
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.bodies)
	}
	r.mu.Unlock()
	r.work.Wait()
	r.cancel()
}

// Stop ends the recording and returns its files. What could not be made is left out, with an error. mask masks secrets.
func (r *Recorder) Stop(ctx context.Context, mask func(string) string) ([]File, error) {
	waiting, cancel := context.WithTimeout(ctx, bodiesTime)
	stop := context.AfterFunc(waiting, r.cancel)
	r.end()
	stop()
	cancel()
	var film []byte
	var filmErr error
	if r.has(Video) {
		film, filmErr = r.encodeVideo(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []File
	var errs []error
	add := func(kind, name, mediaType string, encode func() ([]byte, error)) {
		if !r.has(kind) {
			return
		}
		b, err := encode()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
			return
		}
		out = append(out, File{name, mediaType, b})
	}
	add(HAR, "requests.har", "application/json", func() ([]byte, error) { return r.archive.encode(mask) })
	add(Trace, "trace.json", "application/json", func() ([]byte, error) {
		for _, x := range r.archive.entries {
			took := time.Duration(x.Time * float64(time.Millisecond))
			r.trace.add(rowNetwork, "request", x.Request.Method+" "+x.Request.URL, x.Started, x.Started.Add(max(took, time.Microsecond)), map[string]string{"status": fmt.Sprint(x.Response.Status), "error": x.Response.Error})
		}
		return r.trace.encode(mask)
	})
	add(Video, "video.webm", "video/webm", func() ([]byte, error) { return film, filmErr })
	add(GIF, "pictures.gif", "image/gif", func() ([]byte, error) {
		for i := range r.frames {
			r.frames[i].caption = mask(r.frames[i].caption)
		}
		return animate(r.frames)
	})
	return out, errors.Join(errs...)
}
