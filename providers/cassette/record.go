package cassette

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxRecorded limits the size of a body.
const maxRecorded = 64 << 20

// RecorderConfig configures a recorder. Path is required.
type RecorderConfig struct {
	Path string // exchanges are appended to an existing file
	// Environ is the environment, in the form of [os.Environ], whose secrets must not be recorded.
	Environ []string
	// Warn is called with the reason when an exchange was not recorded. May be nil.
	Warn func(text string)
}

// Recorder appends exchanges to a file. It is safe for concurrent use. A file must have only one recorder.
//
// A request that seems to contain a secret is not sent. A response that does is returned to the caller but not recorded, and the
// next request fails.
type Recorder struct {
	cfg    RecorderConfig
	secret *detector

	mu struct { // held while the file is written
		sync.Mutex
		failed error
	}
}

// NewRecorder checks that the file can be extended. It does not write yet.
func NewRecorder(cfg RecorderConfig) (*Recorder, error) {
	if _, err := Load(cfg.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("can't append to it: %w", err)
	}
	return &Recorder{cfg: cfg, secret: newDetector(cfg.Environ)}, nil
}

// Around returns a transport that records the exchanges of next.
func (r *Recorder) Around(next http.RoundTripper) http.RoundTripper { return &recording{r, next} }

type recording struct {
	*Recorder
	next http.RoundTripper
}

// CloseIdleConnections implements the interface that net/http looks for.
func (r *recording) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper]. A request without a response is not recorded.
func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := r.broken(); err != nil {
		return nil, err
	}
	body, err := drain(req)
	if err != nil {
		return nil, err
	}
	var hidden cover
	asked := hidden.request(req.Method, req.URL, req.Header, body)
	if s := r.secret.request(&asked); s != nil {
		return nil, &llm.Error{
			Code:    llm.ErrInvalidRequest,
			Message: fmt.Sprintf("the request was not sent, because it can't be recorded: %s contains what looks like %s", s.where, s.what),
			Next:    "remove it from the conversation, or continue without recording",
		}
	}
	out := req.Clone(req.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	res, err := r.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	res.Body = &tee{ReadCloser: res.Body, done: func(got []byte, err error) {
		cut := err != nil && err != io.EOF && req.Context().Err() == nil
		r.add(Interaction{Transport: overHTTP, Request: asked, Response: hidden.response(res, got, cut)})
	}}
	return res, nil
}

// drain reads and closes a request's body.
func drain(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// tee keeps what is read and reports it once: at the end, on an error, or when closed.
type tee struct {
	io.ReadCloser
	got  bytes.Buffer
	done func(got []byte, err error)
	once sync.Once
}

// Read implements [io.Reader].
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if left := maxRecorded + 1 - t.got.Len(); left > 0 {
		t.got.Write(p[:min(n, left)])
	}
	if err != nil {
		t.tell(err)
	}
	return n, err
}

// Close implements [io.Closer].
func (t *tee) Close() error {
	t.tell(nil)
	return t.ReadCloser.Close()
}

func (t *tee) tell(err error) { t.once.Do(func() { t.done(t.got.Bytes(), err) }) }

func (r *Recorder) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.failed
}

// add appends an exchange to the file. It reads the file each time, because another process may have created it.
func (r *Recorder) add(in Interaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.failed != nil {
		return
	}
	err := r.refuse(&in.Response)
	if err == nil {
		err = r.append(in)
	}
	if err == nil {
		return
	}
	r.mu.failed = &llm.Error{
		Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("%s is no longer complete: %v", r.cfg.Path, err),
		Next: "correct it and record again, or continue without recording",
	}
	if r.cfg.Warn != nil {
		r.cfg.Warn(fmt.Sprintf("an exchange was not recorded in %s: %v", r.cfg.Path, err))
	}
}

func (r *Recorder) refuse(res *Response) error {
	if len(res.Body) > maxRecorded {
		return fmt.Errorf("the response exceeds %d MiB", maxRecorded>>20)
	}
	if s := r.secret.response(res); s != nil {
		return fmt.Errorf("%s contains what looks like %s", s.where, s.what)
	}
	return nil
}

func (r *Recorder) append(in Interaction) error {
	c, err := Load(r.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		name := filepath.Base(r.cfg.Path)
		c, err = &Cassette{Version: version, Metadata: Metadata{
			Name:       cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), name),
			RecordedAt: time.Now().UTC().Truncate(time.Second),
		}}, nil
	}
	if err != nil {
		return err
	}
	c.Interactions = append(c.Interactions, in)
	return c.save(r.cfg.Path)
}
