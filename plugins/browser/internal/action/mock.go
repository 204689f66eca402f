package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Mock is an answer that pages get in place of that of a site.
type Mock struct {
	URL     string            `json:"url" jsonschema:"Pattern of addresses: api.example.com/users or https://*.example.com/*; * is any text."`
	Status  int               `json:"status,omitempty" jsonschema:"Default 200."`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

const (
	maxMocks       = 50
	maxMockHeaders = 50
	maxMockBody    = 256 << 10 // bytes
	maxMockBodies  = 1 << 20   // of all
)

// Mocks returns what the browser is to answer, or an error that says what to change.
func Mocks(list []Mock) ([]target.Mock, error) {
	if len(list) > maxMocks {
		return nil, fmt.Errorf("there are more than %d mocks", maxMocks)
	}
	var out []target.Mock
	bodies := 0
	for i, m := range list {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("mock %d (%s): %s", i+1, clip(m.URL, 100), fmt.Sprintf(format, args...))
		}
		_, rest, ok := strings.Cut(m.URL, "://")
		if !ok {
			rest = m.URL
		}
		host, _, _ := strings.Cut(rest, "/")
		bodies += len(m.Body)
		switch {
		case m.URL == "" || strings.ContainsAny(m.URL, " \t\r\n"):
			return nil, fail("url must be a pattern of addresses, such as api.example.com/users or https://*.example.com/*")
		case host == "":
			return nil, fail("url has no host")
		case m.Status != 0 && (m.Status < 200 || m.Status > 599):
			return nil, fail("status must be between 200 and 599")
		case len(m.Body) > maxMockBody || bodies > maxMockBodies:
			return nil, fail("a body may have %d bytes, and all together %d", maxMockBody, maxMockBodies)
		case len(m.Headers) > maxMockHeaders:
			return nil, fail("there are more than %d headers", maxMockHeaders)
		}
		x := target.Mock{Pattern: m.URL, Status: m.Status, Body: m.Body}
		if x.Status == 0 {
			x.Status = http.StatusOK
		}
		if !strings.Contains(rest, "/") { // all of the host
			x.Pattern += "/*"
		}
		typed := false
		for _, k := range slices.Sorted(maps.Keys(m.Headers)) {
			v := m.Headers[k]
			if k == "" || strings.ContainsAny(k, " \t\r\n:") || strings.ContainsAny(v, "\r\n\x00") || len(k)+len(v) > 8<<10 {
				return nil, fail("%q is no header", clip(k, 50))
			}
			typed = typed || strings.EqualFold(k, "content-type")
			x.Headers = append(x.Headers, [2]string{k, v})
		}
		if !typed && m.Body != "" {
			kind := "text/html; charset=utf-8"
			if json.Valid([]byte(m.Body)) {
				kind = "application/json"
			}
			x.Headers = append(x.Headers, [2]string{"Content-Type", kind})
		}
		out = append(out, x)
	}
	return out, nil
}
