package rpc

// scheduler orders requests: those of a key run one at a time, except that consecutive shared ones run together; keys take turns. It
// starts nothing itself and is not safe for concurrent use.
type scheduler struct {
	lanes   map[string]*lane
	ready   []*lane // whose first request may start; each once
	waiting int     // requests
}

// lane contains the requests of a key. Those without a key are all shared.
type lane struct {
	key     string
	queue   []*Request // that wait
	running int
	shared  bool // those that run are
	ready   bool // in scheduler.ready
}

// add queues r.
func (s *scheduler) add(r *Request) {
	l := s.lanes[r.route.Key]
	if l == nil {
		if s.lanes == nil {
			s.lanes = map[string]*lane{}
		}
		l = &lane{key: r.route.Key}
		s.lanes[l.key] = l
	}
	l.queue = append(l.queue, r)
	s.waiting++
	s.check(l)
}

// next returns the request that starts now, or nil. It counts as running until done.
func (s *scheduler) next() *Request {
	if len(s.ready) == 0 {
		return nil
	}
	l := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	l.ready = false
	r := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	s.waiting--
	l.running++
	l.shared = r.shared()
	s.check(l)
	return r
}

// done notes that r, which next has returned, no longer runs.
func (s *scheduler) done(r *Request) {
	l := s.lanes[r.route.Key]
	l.running--
	s.check(l)
	if l.running == 0 && len(l.queue) == 0 {
		delete(s.lanes, l.key)
	}
}

// drop removes the requests that wait and returns them, those of each key in order.
func (s *scheduler) drop() []*Request {
	out := make([]*Request, 0, s.waiting)
	for key, l := range s.lanes {
		out = append(out, l.queue...)
		l.queue, l.ready = nil, false
		if l.running == 0 {
			delete(s.lanes, key)
		}
	}
	s.ready, s.waiting = nil, 0
	return out
}

// check makes l take its turn if its first request may start.
func (s *scheduler) check(l *lane) {
	if l.ready || len(l.queue) == 0 || l.running > 0 && !(l.shared && l.queue[0].shared()) {
		return
	}
	l.ready = true
	s.ready = append(s.ready, l)
}
