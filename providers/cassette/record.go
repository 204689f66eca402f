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

// maxRecorded bounds one body: more is no conversation that anybody wants to review.
const maxRecorded = 64 << 20

// RecorderConfig says where to record. Path is required.
type RecorderConfig struct {
	Path string // what is there already stays, new exchanges are added
	// Environ is the environment whose secrets must not get into the file, as [os.Environ] returns it.
	Environ []string
	// Warn hears why an exchange was not recorded. May be nil.
	Warn func(text string)
}

// Recorder adds exchanges to a file. It is safe for concurrent use; one file has one recorder.
//
// A request that can't be recorded, since something in it looks like a secret, is not sent. An answer that can't be is
// passed on; it is left out of the file, and the next request fails.
type Recorder struct {
	cfg    RecorderConfig
	secret *detector

	mu struct { // held while the file is written
		sync.Mutex
		failed error
	}
}

// NewRecorder makes sure that a recording can go on where the file ends. Nothing is written yet.
func NewRecorder(cfg RecorderConfig) (*Recorder, error) {
	if _, err := Load(cfg.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it can't be added to: %w", err)
	}
	return &Recorder{cfg: cfg, secret: newDetector(cfg.Environ)}, nil
}

// Around records what goes through next.
func (r *Recorder) Around(next http.RoundTripper) http.RoundTripper { return &recording{r, next} }

type recording struct {
	*Recorder
	next http.RoundTripper
}

// CloseIdleConnections is what net/http looks for in a transport.
func (r *recording) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper]. A request that gets no answer leaves nothing in the file.
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
			Message: fmt.Sprintf("the request is not sent, since it can't be recorded: %s holds what looks like %s", s.where, s.what),
			Next:    "take it out of the conversation, or go on without recording",
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

// drain reads a request's body, which net/http wants to be closed in any case.
func drain(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// tee keeps what its reader reads, and tells it once: at the end, at an error, or when it is closed.
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

// add puts an exchange at the end of the file. The file is read each time: another process may have begun it.
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
		Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("%s is not complete any more: %v", r.cfg.Path, err),
		Next: "correct it and record anew, or go on without recording",
	}
	if r.cfg.Warn != nil {
		r.cfg.Warn(fmt.Sprintf("an exchange was not recorded in %s: %v", r.cfg.Path, err))
	}
}

func (r *Recorder) refuse(res *Response) error {
	if len(res.Body) > maxRecorded {
		return fmt.Errorf("the answer has more than %d MiB", maxRecorded>>20)
	}
	if s := r.secret.response(res); s != nil {
		return fmt.Errorf("%s holds what looks like %s", s.where, s.what)
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
