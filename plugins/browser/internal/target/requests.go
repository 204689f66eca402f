package target

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

const (
	// maxRecorded is the number of the latest requests of a tab that can be asked for.
	maxRecorded = 400
	// maxURL is how much of their addresses is kept, in bytes. A page can make addresses of megabytes.
	maxURL = 4096
	// maxHeader is how much of the value of a header is kept, and maxHeaders how many of them are.
	maxHeader, maxHeaders = 1024, 100
)

// Recorded is a request of a tab, as far as it is known.
type Recorded struct {
	Number      int // of the tab
	Method, URL string
	Kind        string // "Document", "Fetch", ...
	Begin       time.Time
	Took        time.Duration // 0: it is not finished
	Status      int           // of the answer; 0: there is none
	MediaType   string
	Bytes       int64  // that have arrived
	Failure     string // why it has failed
	Sent, Got   map[string]string

	id      network.RequestID
	session *cdp.Session
	body    bool // it has one
}

// recording is the latest requests of a tab.
type recording struct {
	last int
	list []*Recorded
}

func (r *recording) find(id network.RequestID, session string) *Recorded {
	for _, x := range slices.Backward(r.list) {
		if x.id == id && x.session.ID() == session {
			return x
		}
	}
	return nil
}

// event notes an event of the network. The caller has locked the mutex of the browser.
func (r *recording) event(e cdp.Event, s *cdp.Session) {
	var p struct {
		RequestID network.RequestID    `json:"requestId"`
		Type      network.ResourceType `json:"type"`
		Request   struct {
			Method      string            `json:"method"`
			URL         string            `json:"url"`
			HasPostData bool              `json:"hasPostData"`
			Headers     map[string]string `json:"headers"`
		} `json:"request"`
		RedirectResponse *answered `json:"redirectResponse"`
		Response         *answered `json:"response"`
		Length           float64   `json:"encodedDataLength"`
		ErrorText        string    `json:"errorText"`
	}
	switch e.Method {
	case "Network.requestWillBeSent", "Network.responseReceived", "Network.loadingFinished", "Network.loadingFailed":
	default:
		return
	}
	if e.Decode(&p) != nil {
		return
	}
	x := r.find(p.RequestID, e.Session)
	if e.Method == "Network.requestWillBeSent" {
		if x != nil && p.RedirectResponse != nil { // the next request has the same ID
			p.RedirectResponse.note(x)
			x.Took = time.Since(x.Begin)
		}
		if strings.HasPrefix(p.Request.URL, "data:") {
			return
		}
		r.last++
		r.list = append(r.list, &Recorded{
			Number: r.last, Method: clip(p.Request.Method, maxHeader), URL: clip(p.Request.URL, maxURL), Kind: string(p.Type), Begin: time.Now(), Sent: bounded(p.Request.Headers),
			id: p.RequestID, session: s, body: p.Request.HasPostData,
		})
		r.list = r.list[max(0, len(r.list)-maxRecorded):]
		return
	}
	if x == nil {
		return
	}
	switch e.Method {
	case "Network.responseReceived":
		if p.Response != nil {
			p.Response.note(x)
		}
		return
	case "Network.loadingFinished":
		x.Bytes = int64(p.Length)
	default:
		x.Failure = p.ErrorText
	}
	x.Took = max(time.Since(x.Begin), 1)
}

// answered is the answer to a request.
type answered struct {
	Status   int               `json:"status"`
	MimeType string            `json:"mimeType"`
	Headers  map[string]string `json:"headers"`
}

func (a *answered) note(x *Recorded) {
	x.Status, x.MediaType, x.Got = a.Status, clip(a.MimeType, maxHeader), bounded(a.Headers)
}

// bounded returns headers without what nobody reads.
func bounded(headers map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range headers {
		if len(out) == maxHeaders {
			break
		}
		out[clip(name, maxHeader)] = clip(value, maxHeader)
	}
	return out
}

// clip returns the beginning of a text, which does not keep the rest of it in memory.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:most]), "") + "..."
}

// Requests returns the latest requests of the tab, the oldest first.
func (t *Tab) Requests() []Recorded {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	out := make([]Recorded, len(t.recording.list))
	for i, x := range t.recording.list {
		out[i] = *x
	}
	return out
}

// Bodies returns what a request has sent, and what has been answered, if the browser still has it.
func (t *Tab) Bodies(ctx context.Context, r Recorded) (sent, got string) {
	var answer struct {
		PostData      string `json:"postData"`
		Body          string `json:"body"`
		Base64Encoded bool   `json:"base64Encoded"`
	}
	if r.body {
		if r.session.Call(ctx, network.CommandGetRequestPostData, network.GetRequestPostDataParams{RequestID: r.id}, &answer) == nil {
			sent = answer.PostData
		}
	}
	if r.session.Call(ctx, network.CommandGetResponseBody, network.GetResponseBodyParams{RequestID: r.id}, &answer) == nil {
		if got = answer.Body; answer.Base64Encoded {
			got = fmt.Sprintf("(%d bytes of %s)", len(answer.Body)*3/4, r.MediaType)
		}
	}
	return sent, got
}

// Message is a line of a page's console.
type Message struct {
	Level, Text, At string
	Time            time.Time
}

const (
	// maxMessages is the number of the latest messages of a console.
	maxMessages = 1000
	// maxMessage is how much of each is kept, in bytes: a page can write a text of megabytes a thousand times.
	maxMessage = 4096
)

// Console returns what the scripts of the tab's documents have written to the console, and what the browser has. The browser keeps it, and
// tells it again when it is asked.
func (t *Tab) Console(ctx context.Context) ([]Message, error) {
	var list []Message
	t.all.mu.Lock()
	t.messages = &list
	sessions := []*cdp.Session{t.Session}
	for _, p := range t.frames {
		sessions = append(sessions, p.Session)
	}
	t.all.mu.Unlock()
	defer func() {
		t.all.mu.Lock()
		defer t.all.mu.Unlock()
		t.messages = nil
	}()
	for i, s := range sessions {
		err := t.Do(ctx, func(ctx context.Context) error {
			_, err := protocol.Call(ctx, s, runtime.Enable, protocol.Empty{})
			if err == nil {
				_, err = protocol.Call(ctx, s, log.Enable, protocol.Empty{})
			}
			_ = s.Post(runtime.CommandDisable, protocol.Empty{})
			_ = s.Post(log.CommandDisable, protocol.Empty{})
			return err
		})
		if err != nil && i == 0 { // a frame may have gone meanwhile
			return nil, err
		}
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	slices.SortStableFunc(list, func(a, b Message) int { return a.Time.Compare(b.Time) })
	return list[max(0, len(list)-maxMessages):], nil
}

// message notes a line of the console. The caller has locked the mutex of the browser.
func (t *Tab) message(e cdp.Event) {
	if t.messages == nil {
		return
	}
	var p struct {
		Type             string                    `json:"type"`
		Args             []*runtime.RemoteObject   `json:"args"`
		Timestamp        float64                   `json:"timestamp"`
		ExceptionDetails *runtime.ExceptionDetails `json:"exceptionDetails"`
		StackTrace       *runtime.StackTrace       `json:"stackTrace"`
		Entry            *struct {
			Level     string  `json:"level"`
			Text      string  `json:"text"`
			URL       string  `json:"url"`
			Timestamp float64 `json:"timestamp"`
		} `json:"entry"`
	}
	switch e.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
	default:
		return
	}
	if e.Decode(&p) != nil {
		return
	}
	m := Message{Level: p.Type, Time: time.UnixMilli(int64(p.Timestamp))}
	switch {
	case p.Entry != nil:
		m = Message{Level: p.Entry.Level, Text: p.Entry.Text, At: p.Entry.URL, Time: time.UnixMilli(int64(p.Entry.Timestamp))}
	case p.ExceptionDetails != nil:
		d := p.ExceptionDetails
		m.Level, m.Text = "error", d.Text
		if d.Exception != nil && d.Exception.Description != "" {
			m.Text = d.Text + " " + d.Exception.Description
		}
		m.At = fmt.Sprintf("%s:%d", d.URL, d.LineNumber+1)
	default:
		var words []string
		for _, a := range p.Args {
			words = append(words, shown(a))
		}
		m.Text = strings.Join(words, " ")
		if p.StackTrace != nil && len(p.StackTrace.CallFrames) > 0 {
			f := p.StackTrace.CallFrames[0]
			m.At = fmt.Sprintf("%s:%d", f.URL, f.LineNumber+1)
		}
	}
	m.Text, m.At = clip(m.Text, maxMessage), clip(m.At, maxURL)
	*t.messages = append(*t.messages, m)
	if extra := len(*t.messages) - 2*maxMessages; extra > 0 {
		*t.messages = slices.Delete(*t.messages, 0, extra)
	}
}

// shown is a value as a console shows it.
func shown(o *runtime.RemoteObject) string {
	if o.Type == runtime.RemoteObjectTypeString {
		var s string
		_ = json.Unmarshal(o.Value, &s) // the browser has quoted it
		return s
	}
	if o.Description != "" {
		return o.Description
	}
	if len(o.Value) > 0 {
		return string(o.Value)
	}
	return string(o.Type)
}
