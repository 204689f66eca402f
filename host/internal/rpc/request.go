package rpc

import "encoding/json"

// Request is a request of the client. It is answered exactly once, with Reply or Fail; a second answer is logged and dropped.
type Request struct {
	ID     ID
	Method string
	Params json.RawMessage // nil: absent; the bytes belong to the request
}

// Reply answers with a result. It never waits. A json.RawMessage is sent as it is; a result that cannot be encoded becomes an
// [Internal] error.
func (r *Request) Reply(result any) {}

// Fail answers with an error. An [*Error] in its tree keeps code, message and data; any other error is an [Internal] one.
func (r *Request) Fail(err error) {}

// Release lets the next request with the same key start, and frees the handler's place among those that run. It is for handlers that
// take long, such as one that waits until a turn or a process has ended.
func (r *Request) Release() {}
