package route

import "net/http"

// Client returns an HTTP client with this transport, for requests other than those to a model. Timeouts are up to the caller's
// contexts. It follows redirects, so it must not be used for requests with a key. Close its idle connections when done.
func (t Transport) Client() (*http.Client, error) {
	transport, err := t.withDefaults().open()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}
