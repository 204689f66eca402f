package route

import "net/http"

// Client returns a client that reaches a vendor as a route does, for what is no request to a model. Its timeouts are the
// caller's, by context. It follows redirects, so it is not for requests that carry a key. Close its idle connections when
// done.
func (t Transport) Client() (*http.Client, error) {
	transport, err := t.withDefaults().open()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}
