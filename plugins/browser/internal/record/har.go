package record

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxEntries is the number of requests in an archive.
	maxEntries = 5000
	// maxBody is the maximum size of the body of a request or response in an archive.
	maxBody = 256 << 10
	// maxBodies is the maximum size of all bodies together.
	maxBodies = 32 << 20
	// maxHeads is the maximum size of all addresses and headers together.
	maxHeads = 32 << 20
)

// The parts of an archive, as HAR 1.2 defines them.
type (
	har struct {
		Log harLog `json:"log"`
	}
	harLog struct {
		Version string     `json:"version"`
		Creator harCreator `json:"creator"`
		Pages   []harPage  `json:"pages"`
		Entries []*entry   `json:"entries"`
		Comment string     `json:"comment,omitempty"`
	}
	harCreator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	harPage struct {
		Started time.Time      `json:"startedDateTime"`
		ID      string         `json:"id"`
		Title   string         `json:"title"`
		Timings map[string]int `json:"pageTimings"`
	}
	entry struct {
		Page     string      `json:"pageref,omitempty"`
		Started  time.Time   `json:"startedDateTime"`
		Time     float64     `json:"time"`
		Request  harRequest  `json:"request"`
		Response harResponse `json:"response"`
		Cache    struct{}    `json:"cache"`
		Timings  harTimings  `json:"timings"`
		Server   string      `json:"serverIPAddress,omitempty"`
		Type     string      `json:"_resourceType,omitempty"`

		begin float64 // of the browser's clock, in seconds
		ended bool
	}
	harRequest struct {
		Method      string   `json:"method"`
		URL         string   `json:"url"`
		HTTPVersion string   `json:"httpVersion"`
		Cookies     []pair   `json:"cookies"`
		Headers     []pair   `json:"headers"`
		Query       []pair   `json:"queryString"`
		Post        *harPost `json:"postData,omitempty"`
		HeadersSize int64    `json:"headersSize"`
		BodySize    int64    `json:"bodySize"`
	}
	harPost struct {
		MimeType string `json:"mimeType"`
		Text     string `json:"text"`
		Params   []pair `json:"params"`
	}
	harResponse struct {
		Status      int64      `json:"status"`
		StatusText  string     `json:"statusText"`
		HTTPVersion string     `json:"httpVersion"`
		Cookies     []pair     `json:"cookies"`
		Headers     []pair     `json:"headers"`
		Content     harContent `json:"content"`
		Redirect    string     `json:"redirectURL"`
		HeadersSize int64      `json:"headersSize"`
		BodySize    int64      `json:"bodySize"`
		Error       string     `json:"_error,omitempty"`
	}
	harContent struct {
		Size     int64  `json:"size"`
		MimeType string `json:"mimeType"`
		Text     string `json:"text,omitempty"`
		Encoding string `json:"encoding,omitempty"`
		Comment  string `json:"comment,omitempty"`
	}
	harTimings struct {
		Blocked float64 `json:"blocked"`
		DNS     float64 `json:"dns"`
		Connect float64 `json:"connect"`
		SSL     float64 `json:"ssl"`
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
	pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// archive collects the requests of a browser.
type archive struct {
	entries []*entry
	open    map[string]*entry // by session and ID of the request
	pages   []harPage
	bodies  int // bytes
	heads   int // bytes
	dropped int
}

func newArchive() *archive { return &archive{open: map[string]*entry{}} }

// The events that matter, without what is not used.
type (
	requestEvent struct {
		ID       string  `json:"requestId"`
		FrameID  string  `json:"frameId"`
		Type     string  `json:"type"`
		Time     float64 `json:"timestamp"`
		WallTime float64 `json:"wallTime"`
		Request  struct {
			URL      string            `json:"url"`
			Method   string            `json:"method"`
			Headers  map[string]string `json:"headers"`
			PostData string            `json:"postData"`
		} `json:"request"`
		Redirect *response `json:"redirectResponse"`
	}
	response struct {
		Status   int64             `json:"status"`
		Text     string            `json:"statusText"`
		Headers  map[string]string `json:"headers"`
		MimeType string            `json:"mimeType"`
		Protocol string            `json:"protocol"`
		Address  string            `json:"remoteIPAddress"`
		Timing   *struct {
			Begin        float64 `json:"requestTime"`
			DNSStart     float64 `json:"dnsStart"`
			DNSEnd       float64 `json:"dnsEnd"`
			ConnectStart float64 `json:"connectStart"`
			ConnectEnd   float64 `json:"connectEnd"`
			SSLStart     float64 `json:"sslStart"`
			SSLEnd       float64 `json:"sslEnd"`
			SendStart    float64 `json:"sendStart"`
			SendEnd      float64 `json:"sendEnd"`
			HeadersEnd   float64 `json:"receiveHeadersEnd"`
		} `json:"timing"`
	}
	responseEvent struct {
		ID       string   `json:"requestId"`
		Response response `json:"response"`
	}
	endEvent struct {
		ID     string  `json:"requestId"`
		Time   float64 `json:"timestamp"`
		Length float64 `json:"encodedDataLength"`
		Error  string  `json:"errorText"`
	}
)

// private are headers whose values are logins: an archive is often passed on.
var private = []string{"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"}

func pairs(headers map[string]string) []pair {
	out := []pair{}
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		v := headers[k]
		if slices.Contains(private, strings.ToLower(k)) {
			v = "[masked]"
		}
		out = append(out, pair{k, v})
	}
	return out
}

func header(headers map[string]string, name string) string {
	for k, v := range headers {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// version returns how HAR names a protocol.
func version(p string) string {
	switch p {
	case "h2", "h3":
		return "HTTP/" + p[1:]
	case "", "http/1.1":
		return "HTTP/1.1"
	}
	return strings.ToUpper(p)
}

// began adds a request. page is the ID of the tab.
func (a *archive) began(session, page string, e requestEvent) {
	key := session + " " + e.ID
	if old := a.open[key]; old != nil && e.Redirect != nil {
		old.answered(a.room(*e.Redirect))
		if a.heads += len(e.Request.URL); a.heads <= maxHeads {
			old.Response.Redirect = e.Request.URL
		}
		old.end(e.Time)
	}
	delete(a.open, key)
	if !strings.HasPrefix(e.Request.URL, "http:") && !strings.HasPrefix(e.Request.URL, "https:") {
		return // made in the page
	}
	size := 2*len(e.Request.URL) + sizeOf(e.Request.Headers) // its query is listed once more
	if len(a.entries) >= maxEntries || a.heads+size > maxHeads {
		a.dropped++
		return
	}
	a.heads += size
	x := &entry{Page: page, Started: wall(e.WallTime), Type: strings.ToLower(e.Type), begin: e.Time, Timings: harTimings{Blocked: -1, DNS: -1, Connect: -1, SSL: -1}}
	x.Request = harRequest{Method: e.Request.Method, URL: e.Request.URL, HTTPVersion: version(""), Cookies: []pair{}, Headers: pairs(e.Request.Headers), Query: query(e.Request.URL), HeadersSize: -1}
	if body := e.Request.PostData; body != "" {
		x.Request.BodySize = int64(len(body))
		x.Request.Post = &harPost{MimeType: header(e.Request.Headers, "Content-Type"), Text: a.body(body), Params: []pair{}}
	}
	x.Response = harResponse{HTTPVersion: version(""), Cookies: []pair{}, Headers: []pair{}, HeadersSize: -1, BodySize: -1, Content: harContent{MimeType: "x-unknown"}}
	a.entries = append(a.entries, x)
	a.open[key] = x
	if e.Type == "Document" && page != "" && !slices.ContainsFunc(a.pages, func(p harPage) bool { return p.ID == page }) {
		a.pages = append(a.pages, harPage{Started: x.Started, ID: page, Title: e.Request.URL, Timings: map[string]int{}})
	}
}

// body returns a body, or nothing if there is no room.
func (a *archive) body(s string) string {
	if len(s) > maxBody || a.bodies+len(s) > maxBodies {
		return ""
	}
	a.bodies += len(s)
	return s
}

// wall returns the time of seconds since 1970; what can't be a time is the beginning of them.
func wall(seconds float64) time.Time {
	const last = 253402300799 // of the year 9999: JSON has no later one
	if !(seconds >= 0 && seconds <= last) {
		seconds = 0
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC()
}

func query(address string) []pair {
	out := []pair{}
	u, err := url.Parse(address)
	if err != nil {
		return out
	}
	values := u.Query()
	for _, k := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[k] {
			out = append(out, pair{k, v})
		}
	}
	return out
}

func (x *entry) answered(r response) {
	x.Response.Status, x.Response.StatusText, x.Response.Headers = r.Status, r.Text, pairs(r.Headers)
	x.Response.HTTPVersion, x.Server = version(r.Protocol), strings.Trim(r.Address, "[]")
	x.Request.HTTPVersion = x.Response.HTTPVersion
	x.Response.Content.MimeType = r.MimeType
	if t := r.Timing; t != nil {
		span := func(from, to float64) float64 {
			if from < 0 || to < from {
				return -1
			}
			return to - from
		}
		x.Timings = harTimings{
			Blocked: max(0, (t.Begin-x.begin)*1000), DNS: span(t.DNSStart, t.DNSEnd), Connect: span(t.ConnectStart, t.ConnectEnd), SSL: span(t.SSLStart, t.SSLEnd),
			Send: max(0, span(t.SendStart, t.SendEnd)), Wait: max(0, span(t.SendEnd, t.HeadersEnd)),
		}
	}
}

// end ends an entry at a time of the browser's clock.
func (x *entry) end(at float64) {
	x.ended = true
	x.Time = max(0, (at-x.begin)*1000)
	t := &x.Timings
	used := 0.0
	for _, v := range []float64{t.Blocked, t.DNS, t.Connect, t.Send, t.Wait} { // SSL is part of connect
		used += max(0, v)
	}
	if t.Wait == 0 && t.Send == 0 {
		t.Wait = max(0, x.Time-used)
		used += t.Wait
	}
	t.Receive = max(0, x.Time-used)
	x.Time = used + t.Receive
}

// answered notes a response; finished, how it ended. The entry is returned if its body is wanted.
func (a *archive) answered(session string, e responseEvent) {
	if x := a.open[session+" "+e.ID]; x != nil {
		x.answered(a.room(e.Response))
	}
}

// room returns a response without its headers if there is no room for them.
func (a *archive) room(r response) response {
	size := sizeOf(r.Headers) + len(r.Text) + len(r.MimeType)
	if a.heads+size > maxHeads {
		return response{Status: r.Status, Protocol: r.Protocol, Address: r.Address, Timing: r.Timing}
	}
	a.heads += size
	return r
}

// sizeOf returns the size of headers in bytes.
func sizeOf(headers map[string]string) (n int) {
	for k, v := range headers {
		n += len(k) + len(v)
	}
	return n
}

func (a *archive) finished(session string, e endEvent) *entry {
	key := session + " " + e.ID
	x := a.open[key]
	if x == nil {
		return nil
	}
	delete(a.open, key)
	x.end(e.Time)
	x.Response.Error = e.Error
	x.Response.BodySize = int64(min(max(e.Length, 0), 1<<52))
	if e.Error != "" || e.Length > maxBody || a.bodies >= maxBodies {
		return nil
	}
	return x
}

// content adds the body of a response.
func (a *archive) content(x *entry, body []byte) {
	x.Response.Content.Size = int64(len(body))
	if len(body) > maxBody || a.bodies+len(body) > maxBodies {
		x.Response.Content.Comment = "left out: too large"
		return
	}
	a.bodies += len(body)
	if utf8.Valid(body) {
		x.Response.Content.Text = string(body)
		return
	}
	x.Response.Content.Text, x.Response.Content.Encoding = base64.StdEncoding.EncodeToString(body), "base64"
}

// encode returns the archive, in which mask has masked each text: in JSON, values would be escaped once more.
func (a *archive) encode(mask func(string) string) ([]byte, error) {
	h := har{harLog{Version: "1.2", Creator: harCreator{"gantry", "1"}, Pages: []harPage{}, Entries: []*entry{}}}
	for _, p := range a.pages {
		p.Title = mask(p.Title)
		h.Log.Pages = append(h.Log.Pages, p)
	}
	masked := func(list []pair) []pair {
		out := []pair{}
		for _, p := range list {
			out = append(out, pair{mask(p.Name), mask(p.Value)})
		}
		return out
	}
	for _, e := range a.entries {
		x := *e
		x.Request.URL, x.Request.Headers, x.Request.Query = mask(x.Request.URL), masked(x.Request.Headers), masked(x.Request.Query)
		if p := x.Request.Post; p != nil {
			post := *p
			post.MimeType, post.Text = mask(post.MimeType), mask(post.Text)
			x.Request.Post = &post
		}
		x.Response.Headers, x.Response.Redirect, x.Response.StatusText = masked(x.Response.Headers), mask(x.Response.Redirect), mask(x.Response.StatusText)
		x.Response.Content.MimeType = mask(x.Response.Content.MimeType)
		if x.Response.Content.Encoding == "" {
			x.Response.Content.Text = mask(x.Response.Content.Text)
		}
		h.Log.Entries = append(h.Log.Entries, &x)
	}
	if a.dropped > 0 {
		h.Log.Comment = "more requests were left out"
	}
	return json.Marshal(h)
}
