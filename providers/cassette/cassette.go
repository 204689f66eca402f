// Package cassette records HTTP exchanges in a file and replays them.
//
// It owns the file format, the choice of the recorded response for a request, and the removal of secrets. It does not know any
// vendor, the meaning of a response, or why an exchange is recorded.
//
// A cassette is indented JSON, which is meant to be reviewed and committed. A [Recorder] wraps a transport and appends each
// exchange when it has ended; the file is complete at any time. A [Player] replaces a transport and sends nothing.
//
// Start with [Cassette], [Recorder.Around] and [Player].
package cassette

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	version = 1
	// overHTTP is the only transport so far.
	overHTTP = "http"
	// maxFile limits what is read into memory.
	maxFile = 256 << 20
)

// Cassette is the content of a file.
type Cassette struct {
	Version      int           `json:"version"`
	Metadata     Metadata      `json:"metadata"`
	Interactions []Interaction `json:"interactions"`
}

// Metadata describes the recording.
type Metadata struct {
	Name       string    `json:"name"`
	RecordedAt time.Time `json:"recordedAt"` // start of the recording
}

// Interaction is a request with its response.
type Interaction struct {
	Transport string   `json:"transport"`
	Request   Request  `json:"request"`
	Response  Response `json:"response"`
}

// Request is a request without its secrets.
type Request struct {
	Method, URL string
	Headers     map[string]string
	Body        []byte
}

// Response is a response without its secrets.
type Response struct {
	Status  int
	Headers map[string]string
	Body    []byte
	Cut     bool // the connection broke after Body
}

// Encodings of a body. A request body that is JSON has none and is embedded in the file.
const (
	asText   = "text"
	asBase64 = "base64"
)

type requestJSON struct {
	Method       string            `json:"method"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers,omitempty"`
	Body         json.RawMessage   `json:"body,omitempty"`
	BodyEncoding string            `json:"bodyEncoding,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (r Request) MarshalJSON() ([]byte, error) {
	out := requestJSON{Method: r.Method, URL: r.URL, Headers: r.Headers}
	switch {
	case len(r.Body) == 0:
	case utf8.Valid(r.Body) && json.Valid(r.Body):
		out.Body = r.Body
	default:
		text, form := encode(r.Body)
		raw, err := plain(text)
		if err != nil {
			return nil, err
		}
		out.Body, out.BodyEncoding = raw, form
	}
	return plain(out)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Request) UnmarshalJSON(b []byte) error {
	var in requestJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*r = Request{Method: in.Method, URL: in.URL, Headers: in.Headers}
	if in.BodyEncoding == "" {
		if len(in.Body) == 0 {
			return nil
		}
		var body bytes.Buffer
		if err := json.Compact(&body, in.Body); err != nil {
			return err
		}
		r.Body = body.Bytes()
		return nil
	}
	var text string
	err := json.Unmarshal(in.Body, &text)
	if err == nil {
		r.Body, err = decode(text, in.BodyEncoding)
	}
	return err
}

type responseJSON struct {
	Status       int               `json:"status"`
	Headers      map[string]string `json:"headers,omitempty"`
	Body         string            `json:"body"`
	BodyEncoding string            `json:"bodyEncoding,omitempty"`
	Cut          bool              `json:"cut,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (r Response) MarshalJSON() ([]byte, error) {
	text, form := encode(r.Body)
	if form == asText {
		form = "" // the default
	}
	return plain(responseJSON{Status: r.Status, Headers: r.Headers, Body: text, BodyEncoding: form, Cut: r.Cut})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Response) UnmarshalJSON(b []byte) error {
	var in responseJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in.BodyEncoding == "" {
		in.BodyEncoding = asText
	}
	body, err := decode(in.Body, in.BodyEncoding)
	*r = Response{Status: in.Status, Headers: in.Headers, Body: body, Cut: in.Cut}
	return err
}

func encode(body []byte) (text, form string) {
	if utf8.Valid(body) {
		return string(body), asText
	}
	return base64.StdEncoding.EncodeToString(body), asBase64
}

func decode(text, form string) ([]byte, error) {
	switch form {
	case asText:
		return []byte(text), nil
	case asBase64:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("bodyEncoding %q is neither %q nor %q", form, asText, asBase64)
}

// plain marshals JSON without escaping < and >.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Read parses a file.
func Read(text []byte) (*Cassette, error) {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is not a cassette: %w", err)
	}
	switch {
	case head.Version == nil:
		return nil, errors.New("it is not a cassette: it has no version")
	case *head.Version != version:
		return nil, fmt.Errorf("it has version %d of the format, but only %d is supported", *head.Version, version)
	}
	c := &Cassette{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("it is not a cassette: %w", err)
	}
	for i, in := range c.Interactions {
		if err := in.check(); err != nil {
			return nil, fmt.Errorf("interaction %d: %w", i+1, err)
		}
	}
	return c, nil
}

func (in *Interaction) check() error {
	switch u, err := url.Parse(in.Request.URL); {
	case in.Transport != overHTTP:
		return fmt.Errorf("transport %q is not supported, only %q", in.Transport, overHTTP)
	case in.Request.Method == "":
		return errors.New("the request has no method")
	case err != nil || u.Host == "":
		return errors.New("the request's URL is invalid")
	case in.Response.Status < 100 || in.Response.Status > 999:
		return fmt.Errorf("the response has the status %d", in.Response.Status)
	}
	return nil
}

// Text returns the cassette as indented JSON.
func (c *Cassette) Text() ([]byte, error) {
	raw, err := plain(c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// Load reads a file.
func Load(path string) (*Cassette, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB", path, maxFile>>20)
	}
	c, err := Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// save replaces a file atomically. Only its owner can read it, because it contains a conversation.
func (c *Cassette) save(path string) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync() // otherwise the renamed file may be empty after a crash
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// flat returns headers as a file contains them: the values of a name on one line.
func flat(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return out
}
