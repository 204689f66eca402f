package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// answerer is a vendor on loopback that does as little as it can: its answers are bytes made before, each event in an HTTP
// chunk of its own as vendors send them.
type answerer struct {
	net.Listener
	answer func(conn io.Writer, n int) // request n of its connection, from 0, was read
	conns  sync.WaitGroup
	read   atomic.Int64 // bytes of the last request's body
}

func startAnswerer(b *testing.B, answer func(conn io.Writer, n int)) *answerer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	a := &answerer{Listener: l, answer: answer}
	a.conns.Go(func() { // owned by the benchmark: its clean-up waits for it, and for the connections
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a.conns.Go(func() { a.serve(conn) })
		}
	})
	b.Cleanup(func() {
		l.Close()
		a.conns.Wait()
	})
	return a
}

func (a *answerer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := 0; ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		size, err := io.Copy(io.Discard, req.Body)
		if err != nil {
			return
		}
		if req.Method == http.MethodPost {
			a.read.Store(size)
			a.answer(conn, n)
			n++
		} else if _, err := io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

const (
	answerHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	answerEnd  = "0\r\n\r\n"
)

// chunked puts each event into an HTTP chunk.
func chunked(events string) []byte {
	var b bytes.Buffer
	for e := range strings.SplitAfterSeq(events, "\n\n") {
		if e != "" {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(e), e)
		}
	}
	return b.Bytes()
}

// wireShapes are how two vendors write an answer of one text: what comes before its first delta, a delta, and the end.
var wireShapes = map[string]struct {
	before string
	delta  func(n int, text string) string
	after  func(text string) string
}{
	"openai-chat": {
		before: chatChunk(`{"role":"assistant","content":"","refusal":null}`, "null"),
		delta: func(_ int, text string) string {
			return chatChunk(`{"content":`+strconv.Quote(text)+`}`, "null")
		},
		after: func(string) string { return chatChunk(`{}`, `"stop"`) + "data: [DONE]\n\n" },
	},
	"openai-responses": {
		before: responsesBegin + responsesFrame("response.output_item.added",
			`"output_index":0,"item":{"id":"msg_0","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		delta: func(n int, text string) string {
			return responsesFrame("response.output_text.delta", fmt.Sprintf(
				`"sequence_number":%d,"item_id":"msg_0","output_index":0,"content_index":0,"delta":%s,"logprobs":[],"obfuscation":"xk3Pq"`,
				n, strconv.Quote(text)))
		},
		after: func(text string) string {
			item := `{"id":"msg_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` +
				strconv.Quote(text) + `,"annotations":[]}]}`
			return responsesEnd(item)
		},
	},
}

func chatChunk(delta, finish string) string {
	return `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,` +
		`"model":"own-model","service_tier":"default","system_fingerprint":"fp_fc9f1d7035","choices":[{"index":0,"delta":` + delta +
		`,"logprobs":null,"finish_reason":` + finish + `}],"usage":null,"obfuscation":"V1Pc"}` + "\n\n"
}

var responsesBegin = responsesFrame("response.created",
	`"response":{"id":"resp_0","object":"response","status":"in_progress","model":"gpt-5.4","output":[]}`)

// responsesEnd completes an answer by its one item.
func responsesEnd(item string) string {
	return responsesFrame("response.output_item.done", `"output_index":0,"item":`+item) + responsesFrame("response.completed",
		`"response":{"id":"resp_0","object":"response","status":"completed","model":"gpt-5.4","output":[`+item+
			`],"usage":{"input_tokens":10,"output_tokens":10,"total_tokens":20}}`)
}

func responsesFrame(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fields)
}
