package rig

import "testing"

// The check of messages refuses what does not match a schema, also what is well-formed JSON-RPC.
func TestChecker(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, sent, received string
		ok                   bool
	}{
		{"notification", "", `{"method":"thread/closed","params":{"threadId":"t"},"emittedAtMs":1,"seq":2}`, true},
		{"notification without a parameter", "", `{"method":"thread/closed","params":{}}`, false},
		{"notification with a wrong type", "", `{"method":"thread/closed","params":{"threadId":7}}`, false},
		{"notification without parameters", "", `{"method":"thread/closed"}`, false},
		{"unknown notification", "", `{"method":"thread/begun","params":{}}`, false},
		{"notification with another member", "", `{"method":"thread/closed","params":{"threadId":"t"},"jsonrpc":"2.0"}`, false},
		{"unknown value", "", `{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"busy"}}}`, false},
		{"request", "", `{"id":"q","method":"currentTime/read","params":{"threadId":"t"}}`, false}, // it is experimental
		{"request of a client with experimentalApi", `{"id":1,"method":"initialize","params":{"capabilities":{"experimentalApi":true}}}`,
			`{"id":"q","method":"currentTime/read","params":{"threadId":"t"}}`, true},
		{"request with an ID that is none", "", `{"id":1.5,"method":"item/tool/requestUserInput","params":{}}`, false},
		{"response", `{"id":1,"method":"thread/unsubscribe","params":{"threadId":"t"}}`, `{"id":1,"result":{"status":"unsubscribed"}}`, true},
		{"result of a request with a wrong parameter", `{"id":1,"method":"thread/unsubscribe","params":{"threadId":7}}`, `{"id":1,"result":{"status":"unsubscribed"}}`, false},
		{"error of a request with a wrong parameter", `{"id":1,"method":"thread/unsubscribe","params":{"threadId":7}}`, `{"id":1,"error":{"code":-32602,"message":"m"}}`, true},
		{"result of an unknown method", `{"id":1,"method":"no/such","params":{}}`, `{"id":1,"result":{}}`, false},
		{"response with a wrong value", `{"id":1,"method":"thread/unsubscribe"}`, `{"id":1,"result":{"status":"gone"}}`, false},
		{"response without a result", `{"id":1,"method":"thread/unsubscribe"}`, `{"id":1}`, false},
		{"response with null", `{"id":1,"method":"thread/unsubscribe"}`, `{"id":1,"result":null}`, false},
		{"response to no request", `{"id":1,"method":"thread/unsubscribe"}`, `{"id":2,"result":{"status":"unsubscribed"}}`, false},
		{"error", `{"id":1,"method":"thread/read"}`, `{"id":1,"error":{"code":-32600,"message":"m","data":{"kind":"k"}}}`, true},
		{"error without a code", `{"id":1,"method":"thread/read"}`, `{"id":1,"error":{"message":"m"}}`, false},
		{"error with data of a wrong type", `{"id":1,"method":"thread/read"}`, `{"id":1,"error":{"code":-32600,"message":"m","data":{"kind":7}}}`, false},
	} {
		c := NewChecked()
		if tc.sent != "" {
			if err := c.Sent([]byte(tc.sent)); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		if _, err := c.Received([]byte(tc.received)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What a client sends is checked as well.
func TestCheckerOfWhatIsSent(t *testing.T) {
	t.Parallel()
	const question = `{"id":"q","method":"item/fileChange/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"i","startedAtMs":1,"reason":null}}`
	for _, tc := range []struct {
		name, sent string
		ok         bool
	}{
		{"notification", `{"method":"initialized"}`, true},
		{"unknown notification", `{"method":"begun"}`, false},
		{"no JSON", `{"id":1,`, false},
		{"answer", `{"id":"q","result":{"decision":"accept"}}`, true},
		{"answer with a member that is ignored", `{"jsonrpc":"2.0","id":"q","result":{"decision":"accept"}}`, true},
		{"answer that is none", `{"id":"q","result":{"decision":"perhaps"}}`, false},
		{"error", `{"id":"q","error":{"code":-32000,"message":"m"}}`, true},
		{"error without a message", `{"id":"q","error":{"code":-32000}}`, false},
		{"answer to no question", `{"id":"r","result":{"decision":"accept"}}`, false},
	} {
		c := NewChecked()
		if _, err := c.Received([]byte(question)); err != nil {
			t.Fatal(err)
		}
		if err := c.Sent([]byte(tc.sent)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
