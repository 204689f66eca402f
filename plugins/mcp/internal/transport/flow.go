package transport

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	maxUnanswered = 64 // requests of a server
	maxNotices    = 64 // notifications until the session has to catch up
	catchUp       = "gantry/catch-up/"
)

// flow limits what a server may send before the session has handled it: the SDK queues it without a limit. After some notifications, the
// session gets a request of gantry's own, and nothing more is read before it has answered that, since it then has handled what came before.
type flow struct {
	mu struct {
		sync.Mutex
		unanswered int // requests of the server
		last       int
		open       map[string]chan struct{} // requests of gantry's own, by ID
		calls      map[jsonrpc.ID]bool      // requests of the session that the server has not answered, even if they were cancelled
	}
}

// admit counts a request of the server, and repairs it. A message that only gantry may send is not admitted.
func (f *flow) admit(r *jsonrpc.Request) error {
	if len(r.Params) == 0 || string(r.Params) == "null" {
		r.Params = json.RawMessage("{}") // without params, the SDK panics at some notifications
	}
	if isCatchUp(r.ID) {
		return fmt.Errorf("the server has sent a request with an ID that begins with %q", catchUp)
	}
	if !r.IsCall() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.unanswered++; f.mu.unanswered > maxUnanswered {
		return fmt.Errorf("the server has sent more than %d requests without waiting for the answers", maxUnanswered)
	}
	return nil
}

// pause returns a request for the session, and a channel that is closed when it has been answered.
func (f *flow) pause() (*jsonrpc.Request, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.last++
	name, done := fmt.Sprint(catchUp, f.mu.last), make(chan struct{})
	id, err := jsonrpc.MakeID(name)
	if err != nil {
		return nil, nil, err
	}
	if f.mu.open == nil {
		f.mu.open = map[string]chan struct{}{}
	}
	f.mu.open[name] = done
	return &jsonrpc.Request{ID: id, Method: "ping"}, done, nil
}

// answered notes that the answer to a request of the server has left.
func (f *flow) answered(m jsonrpc.Message) {
	if _, ok := m.(*jsonrpc.Response); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.unanswered--
	}
}

// sent notes a message of the session, and reports whether it is for the server, and not the answer to a request of gantry's own.
func (f *flow) sent(m jsonrpc.Message) bool {
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !isCatchUp(r.ID) {
		return true
	}
	name, _ := r.ID.Raw().(string)
	if done := f.mu.open[name]; done != nil {
		delete(f.mu.open, name)
		close(done)
	}
	return false
}

// asked notes a request of the session.
func (f *flow) asked(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.calls == nil {
		f.mu.calls = map[jsonrpc.ID]bool{}
	}
	f.mu.calls[r.ID] = true
}

// got notes that the server has answered a request.
func (f *flow) got(id jsonrpc.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.calls, id)
}

// only returns the ID of the only request that the server has not answered; false: there is none, or there are several.
func (f *flow) only() (id jsonrpc.ID, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.calls) != 1 {
		return id, false
	}
	for id = range f.mu.calls {
	}
	return id, true
}

func isCatchUp(id jsonrpc.ID) bool {
	name, _ := id.Raw().(string)
	return strings.HasPrefix(name, catchUp)
}
