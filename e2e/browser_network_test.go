package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// peer is a page that looks for ways past the proxy over UDP: to servers that tell it its address (STUN) or relay for it (TURN), to a peer, and
// by HTTP/3. The query has the addresses that it tries.
const peer = `<!doctype html><title>Peer</title><link rel=icon href=data:,><p>Peer<script>
const hosts = location.search.slice(1).split(',')
const say = text => document.body.append(Object.assign(document.createElement('p'), {textContent: text}))
const gathered = pc => new Promise(done => { pc.onicegatheringstatechange = () => pc.iceGatheringState == 'complete' && done() })
async function gather() {
  const servers = hosts.flatMap(h => [{urls: 'stun:' + h}, ...['udp', 'tcp'].map(t => ({urls: 'turn:' + h + '?transport=' + t, username: 'u', credential: 'p'}))])
  const a = new RTCPeerConnection({iceServers: servers}), b = new RTCPeerConnection()
  let found = 0
  a.onicecandidate = e => e.candidate && e.candidate.candidate && found++
  a.createDataChannel('x')
  // Servers that don't answer are tried for longer than this.
  const end = Promise.race([gathered(a), new Promise(done => setTimeout(done, 8000))])
  await a.setLocalDescription(await a.createOffer())
  await b.setRemoteDescription(a.localDescription)
  await b.setLocalDescription(await b.createAnswer())
  await a.setRemoteDescription(b.localDescription)
  for (const h of hosts) {
    const [, host, port] = h.match(/^\[?(.*?)\]?:(\d+)$/)
    await a.addIceCandidate({candidate: 'candidate:1 1 udp 2130706431 ' + host + ' ' + port + ' typ host', sdpMid: '0', sdpMLineIndex: 0})
  }
  await end
  say('gathered ' + found + ' candidates')
}
async function transport() {
  for (const h of hosts) {
    const t = new WebTransport('https://' + h + '/')
    t.closed.catch(() => 0)
    await t.ready.catch(() => 0)
  }
  say('tried transports')
}
Promise.all([gather(), transport()]).then(() => say('tried everything'), e => say('broken: ' + e))
</script>`

// A page sends no datagram: the browser lets none past the proxy, and in its sandbox there is no other way.
func TestBrowserSendsNoDatagrams(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Alt-Svc", fmt.Sprintf("h3=%q", r.URL.RawQuery))
		fmt.Fprint(w, peer)
	}))
	t.Cleanup(s.Close)
	// One port for both protocols, on all addresses of this machine.
	c := newCanary(t)
	udp, err := net.ListenPacket("udp", ":"+c.port)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1000)
	var work sync.WaitGroup
	work.Go(func() { // ends with the listener
		b := make([]byte, 2000)
		for {
			n, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			got <- fmt.Sprintf("%d bytes from %v", n, from)
		}
	})
	t.Cleanup(func() { _ = udp.Close(); work.Wait() })
	hosts := []string{"127.0.0.1:" + c.port, "127.0.0.2:" + c.port, "[::1]:" + c.port}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.To4() != nil && !ip.IsLoopback() {
			hosts = append(hosts, net.JoinHostPort(ip.String(), c.port))
		}
	}
	for _, program := range browsers {
		script := act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/?"+strings.Join(hosts, ","))) +
			act("c2", `{ wait_for = { text = "tried everything", seconds = 60 } }`) + "[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { mode = \"full\" } }]\n"
		r := newBrowser(t, program, script+done)
		r.OK(append(append([]string{"exec"}, reaching("full-access")...), "go")...)
		out := r.Last().Outputs()
		if !strings.Contains(out["c3"], "gathered ") || !strings.Contains(out["c3"], "tried transports") {
			t.Fatalf("%s: the page has not tried: %s\n%s", program, out["c2"], out["c3"])
		}
		r.NothingLeft()
	}
	// What was sent has arrived before this.
	w, err := net.Dial("udp", "127.0.0.1:"+c.port)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	if first := <-got; !strings.HasPrefix(first, "7 bytes from 127.0.0.1:") {
		t.Errorf("a datagram has left the browser: %s", first)
	}
	if ways := c.ways(); len(ways) > 0 {
		t.Errorf("a connection has left the browser: %q", ways)
	}
}

// A redirect, by an answer, an element or a script, leads to no host of this machine and no metadata service, nor does a name that stands for one.
func TestBrowserIsRedirectedNowhere(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	page := "http://127.0.0.1:" + c.port
	var script strings.Builder
	var ids []string
	for i, to := range []string{"http://127.0.0.2:" + c.port + "/way/document", "http://169.254.169.254/latest/meta-data/", "http://localhost:" + c.port + "/way/name", "http://0x7f000002:" + c.port + "/way/number"} {
		for how, actions := range map[string]string{
			"answer": fmt.Sprintf("{ navigate = { url = %q } }", page+"/to?"+to),
			"chain":  fmt.Sprintf("{ navigate = { url = %q } }", page+"/to?"+page+"/to?"+to),
			"meta":   fmt.Sprintf("{ navigate = { url = %q } }, { evaluate = { code = %q } }", page, "document.head.append(Object.assign(document.createElement('meta'), {httpEquiv: 'refresh', content: '0;url="+to+"'})); 0"),
			"script": fmt.Sprintf("{ navigate = { url = %q } }, { evaluate = { code = %q } }", page, "location.replace('"+to+"'); 0"),
			"popup":  fmt.Sprintf("{ navigate = { url = %q } }, { evaluate = { code = %q } }", page, "!!window.open('"+to+"')"),
		} {
			// A sequence ends with its navigation.
			for j, a := range strings.SplitAfter(actions, "} }, ") {
				id := fmt.Sprintf("%s%d%d", how, i, j)
				script.WriteString(act(id, strings.TrimSuffix(a, ", ")))
				if j > 0 || !strings.Contains(actions, "evaluate") {
					ids = append(ids, id)
				}
			}
		}
	}
	r := newBrowser(t, browsers[0], script.String()+done)
	r.OK(append(append([]string{"exec"}, reaching("full-access")...), "go")...)
	out := r.Last().Outputs()
	for _, id := range ids {
		if !strings.Contains(out[id], "on this machine or in a private network") {
			t.Errorf("%s: %s", id, out[id])
		}
	}
	if ways := c.ways(); len(ways) > 0 {
		t.Errorf("the page has reached %q", ways)
	}
	r.NothingLeft()
}

// What the plugin's block denies is opened in no way, although the network rules allow it, however it is spelled.
func TestBrowserOpensNothingDenied(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	page := "http://127.0.0.1:" + c.port
	denied := func(host string) string { return "http://" + host + ":" + c.port + "/way/denied" }
	var script strings.Builder
	step := func(id, actions string) { script.WriteString(act(id, actions)) }
	var ids []string
	for i, url := range []string{denied("127.0.0.2"), denied("127.2"), denied("0x7f000002"), denied("017700000002"), denied("user:pw@127.0.0.2"), denied("[::ffff:127.0.0.2]"), page + "/to?" + denied("127.2")} {
		id := fmt.Sprintf("n%d", i)
		ids = append(ids, id)
		step(id, fmt.Sprintf("{ navigate = { url = %q } }", url))
	}
	for i, code := range []string{
		"location.href = '" + denied("127.2") + "'; 0",
		"!!window.open('" + denied("127.0.0.2") + "')",
		"const e = document.createElement('iframe'); e.src = '" + denied("0x7f.2") + "'; document.body.append(e); 0",
		"const f = document.createElement('form'); f.method = 'POST'; f.action = '" + denied("127.0.0.2") + "'; document.body.append(f); f.submit(); 0",
		"const o = document.createElement('object'); o.data = '" + denied("127.0.0.2") + "'; document.body.append(o); 0",
	} {
		step(fmt.Sprintf("p%d", i), fmt.Sprintf("{ navigate = { url = %q } }", page))
		id := fmt.Sprintf("e%d", i)
		ids = append(ids, id)
		step(id, fmt.Sprintf("{ evaluate = { code = %q } }", code))
	}
	step("p", fmt.Sprintf("{ navigate = { url = %q } }", page))
	step("s", fmt.Sprintf("{ evaluate = { code = %q } }", "new WebSocket('ws://127.0.0.2:"+c.port+"/way/late'); 0"))
	step("w", `{ wait_for = { url = "about:blank" } }`)
	r := newBrowser(t, browsers[0], script.String()+done, `deny = ["127.0.0.2"]`)
	r.OK("exec", "-c", "sandbox.mode=full-access", "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1", "127.0.0.2"]`, "go")
	out := r.Last().Outputs()
	for _, id := range ids {
		if !strings.Contains(out[id], `denied by "127.0.0.2" in the plugin's block`) {
			t.Errorf("%s: %s", id, out[id])
		}
	}
	if text := out["s"] + out["w"]; !strings.Contains(text, "the page was left because it has opened a web socket") {
		t.Errorf("%s\n%s", out["s"], out["w"])
	}
	// The socket is being opened when the plugin learns of it; nothing else has arrived.
	for _, way := range c.ways() {
		if way != "late" && way != "connection to 127.0.0.2" {
			t.Errorf("the page has reached %q", way)
		}
	}
	r.NothingLeft()
}
