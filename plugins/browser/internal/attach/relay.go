package attach

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// dialTime limits how long it may take until the browser's web socket is open.
	dialTime = 20 * time.Second
	// maxMessage is the maximum size of a message, such as the screenshot of a long page.
	maxMessage = 128 << 20
	// maxVersion is the maximum size of what a browser says of itself.
	maxVersion = 1 << 20
)

// Main connects to the browser that the first message on in names, and passes messages on until one side ends, which it says on errs. It
// returns the exit code. A message on in and out ends with a NUL.
func Main(in io.Reader, out io.Writer, errs io.Writer) int {
	if err := relay(in, out); err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

func relay(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 64<<10)
	first, err := r.ReadBytes(0)
	if err != nil {
		return fmt.Errorf("read the address of the browser: %w", err)
	}
	var q request
	if err := json.Unmarshal(first[:len(first)-1], &q); err != nil {
		return fmt.Errorf("read the address of the browser: %w", err)
	}
	conn, err := q.open()
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetReadLimit(maxMessage)
	ended := make(chan error, 2)
	go func() { ended <- send(r, conn) }()      // owned by the process: ends with it, which ends when either direction does
	go func() { ended <- receive(conn, out) }() // likewise owned by the process
	return <-ended
}

// send passes on what the plugin writes. Its end is the end of the plugin.
func send(r *bufio.Reader, conn *websocket.Conn) error {
	for {
		b, err := r.ReadBytes(0)
		if errors.Is(err, io.EOF) {
			return conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		}
		if err != nil {
			return err
		}
		if len(b) == 1 {
			continue
		}
		if err := conn.WriteMessage(websocket.TextMessage, b[:len(b)-1]); err != nil {
			return fmt.Errorf("send to the browser: %w", err)
		}
	}
}

// receive passes on what the browser says.
func receive(conn *websocket.Conn, out io.Writer) error {
	for {
		_, b, err := conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("the connection to the browser has ended: %w", err)
		}
		if _, err := out.Write(append(b, 0)); err != nil {
			return err
		}
	}
}

// open opens the browser's web socket.
func (q request) open() (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	u, err := url.Parse(q.URL)
	if err != nil {
		return nil, errors.New("the address of the browser is invalid")
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		if u, err = q.find(ctx, u); err != nil {
			return nil, err
		}
	}
	d := websocket.Dialer{NetDialContext: q.dial}
	conn, resp, err := d.DialContext(ctx, u.String(), nil)
	if resp != nil {
		defer resp.Body.Close()
	}
	switch {
	case errors.Is(err, websocket.ErrBadHandshake):
		return nil, fmt.Errorf("the browser at %s refuses the connection: %s", u.Host, resp.Status)
	case err != nil:
		return nil, fmt.Errorf("connect to the browser at %s: %w", u.Host, err)
	}
	return conn, nil
}

// find asks a browser for its web socket, and returns the address of that at the host at which it was asked.
func (q request) find(ctx context.Context, u *url.URL) (*url.URL, error) {
	t := &http.Transport{DialContext: q.dial, DisableKeepAlives: true}
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("json", "version").String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // without the address
			err = e.Err
		}
		return nil, fmt.Errorf("connect to the browser at %s: %w", u.Host, err)
	}
	defer resp.Body.Close()
	var v struct {
		Socket string `json:"webSocketDebuggerUrl"`
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the browser at %s refuses to say how it is controlled: %s", u.Host, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersion)).Decode(&v); err != nil || v.Socket == "" {
		return nil, fmt.Errorf("what answers at %s is no browser: /json/version names no web socket", u.Host)
	}
	s, err := url.Parse(v.Socket)
	if err != nil {
		return nil, fmt.Errorf("the browser at %s names an invalid web socket", u.Host)
	}
	s.Scheme, s.Host = "ws", u.Host
	if u.Scheme == "https" {
		s.Scheme = "wss"
	}
	return s, nil
}

// dial connects to an address, through the proxy if there is one.
func (q request) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if q.Proxy == "" {
		return d.DialContext(ctx, network, address)
	}
	conn, err := d.DialContext(ctx, network, q.Proxy)
	if err != nil {
		return nil, fmt.Errorf("connect to gantry's proxy: %w", err)
	}
	if err := connect(ctx, conn, address); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// connect has the proxy connect to an address.
func connect(ctx context.Context, conn net.Conn, address string) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := req.Write(conn); err != nil {
		return err
	}
	// Nothing follows the answer before this side has sent something.
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // otherwise the status says it alone
		return fmt.Errorf("gantry's proxy refuses %s: %s %s", address, resp.Status, text)
	}
	return conn.SetDeadline(time.Time{})
}
