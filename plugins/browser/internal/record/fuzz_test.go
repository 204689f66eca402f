package record

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever events say, in whatever order, the archive is one, within its limits, and every text in it was masked.
func FuzzArchive(f *testing.F) {
	f.Add([]byte(`{"requestId":"1","type":"Document","timestamp":1,"wallTime":1.7e9,"request":{"url":"http://a/?q=hunter2","method":"GET","headers":{"Cookie":"hunter2"},"postData":"hunter2"}}
{"requestId":"1","response":{"status":200,"headers":{"X":"hunter2"},"timing":{"requestTime":1,"sendStart":0,"sendEnd":1,"receiveHeadersEnd":5}}}
{"requestId":"1","timestamp":2,"encodedDataLength":5}`), []byte("hunter2"))
	f.Add([]byte(`{"requestId":"1","timestamp":-1e308,"wallTime":1e308,"request":{"url":"https:"},"redirectResponse":{}}`), []byte{0xff})
	f.Fuzz(func(t *testing.T, events, body []byte) {
		a := newArchive()
		for line := range strings.SplitSeq(string(events), "\n") {
			var q requestEvent
			if json.Unmarshal([]byte(line), &q) == nil && q.Request.URL != "" {
				a.began("s", "page", q)
			}
			var r responseEvent
			if json.Unmarshal([]byte(line), &r) == nil {
				a.answered("s", r)
			}
			var e endEvent
			if json.Unmarshal([]byte(line), &e) == nil && q.Request.URL == "" {
				if x := a.finished("s", e); x != nil {
					a.content(x, body)
				}
			}
		}
		b, err := a.encode(func(s string) string { return strings.ReplaceAll(s, "hunter2", "") })
		if err != nil {
			t.Fatal(err)
		}
		var h har
		if err := json.Unmarshal(b, &h); err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Log.Entries {
			if e.Time < 0 || e.Timings.Receive < 0 || e.Timings.Wait < 0 {
				t.Errorf("%+v", e)
			}
			if j, _ := json.Marshal([]any{e.Request.URL, e.Request.Headers, e.Request.Query, e.Request.Post, e.Response.Headers, e.Response.Content}); strings.Contains(string(j), "hunter2") && e.Response.Content.Encoding == "" {
				t.Errorf("%s", j)
			}
		}
	})
}
