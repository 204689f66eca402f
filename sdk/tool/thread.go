package tool

// Thread is a thread that uses this plugin. It may be used by several goroutines and lasts until EndThread.
type Thread struct{}

// ID of the thread.
func (t *Thread) ID() string { return "" }

// Cwd of the thread, as far as the host has told it.
func (t *Thread) Cwd() string { return "" }

// Context sets the text that the model sees under key; empty text removes it.
func (t *Thread) Context(key, text string) {}

// OpenSession tells that something outlives the call that opened it.
func (t *Thread) OpenSession(id, callID, title string) *Session { return &Session{} }

// Session is something that outlives its call.
type Session struct{}

// ID of the session.
func (s *Session) ID() string { return "" }

// Write shows output of the session as it appears.
func (s *Session) Write(p []byte) (int, error) { return len(p), nil }

// Exited tells that the session is over. A signal n is 128+n.
func (s *Session) Exited(code int) {}

// Denied tells that the sandbox ended the session.
func (s *Session) Denied(code int) {}

// Lost tells that nobody knows what became of the session.
func (s *Session) Lost() {}
