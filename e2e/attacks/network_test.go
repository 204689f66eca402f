package attacks_test

// network are the rows about what is reached over sockets.
var network = []row{
	{id: "N1", attempt: "TCP to this machine, to others, by `/dev/tcp`", required: "denied", codex: "EPERM", tries: []try{
		{call: "TCP", says: notPermitted},
		{call: "TCP to another machine", says: notPermitted, outside: untried},
		{do: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT'`, says: refused},
		{call: "TCP", says: notPermitted, box: "read-only"},
	}},
	{id: "N2", attempt: "UDP, IPv6, raw packets, netlink, the hypervisor's sockets, the kernel's ciphers", required: "denied", codex: "EPERM", tries: []try{
		{call: "UDP", says: notPermitted}, {call: "IPv6", says: notPermitted, outside: depends}, {call: "raw packets", says: notPermitted, outside: depends}, {call: "packets", says: notPermitted, outside: depends},
		{call: "netlink", says: notPermitted}, {call: "sockets of the hypervisor", says: notPermitted, outside: depends}, {call: "ciphers of the kernel", says: notPermitted, outside: depends},
		{call: "sockets of the hypervisor", says: notPermitted, box: "network", outside: depends}, {call: "ciphers of the kernel", says: notPermitted, box: "network", outside: depends}, {call: "packets", says: notPermitted, box: "network", outside: depends},
	}},
	{id: "N3", attempt: "resolve a name", required: "denied", codex: "fails", tries: []try{
		{do: `getent hosts example.com`, outside: untried},
		{do: `getent hosts example.com`, box: "proxy", outside: untried},
	}},
	{id: "N4", attempt: "connect to a service's socket that has a path: of containers, of the desktop, of agents with keys", required: "denied", codex: "EPERM", tries: []try{
		{call: "a service", says: notPermitted}, {call: "a service", says: notPermitted, box: "read-only"},
	}},
	{id: "N5", attempt: "sendto a service that takes datagrams", required: "denied", codex: "EPERM", tries: []try{{call: "sendto", says: notPermitted}}},
	{id: "N6", attempt: "sendmsg to a service that takes datagrams: logs, the journal", required: "denied", codex: "delivered", escaped: true, tries: []try{
		{call: "sendmsg", says: notPermitted}, {call: "sendmsg", says: notPermitted, box: "proxy"}, {call: "a pair of datagrams", says: notPermitted},
	}},
	{id: "N7", attempt: "datagrams to an abstract socket", required: "denied", codex: "ECONNREFUSED", tries: []try{
		{call: "an abstract datagram"}, {call: "an abstract datagram", box: "network"},
	}},
	{id: "N8", attempt: "pairs of sockets between own processes", required: "work: write, read, send, getsockopt, shutdown", codex: "EPERM for send, getsockopt, shutdown: event loops hang", ours: "work", tries: []try{
		{call: "a pair", works: true}, {call: "a pair", works: true, box: "proxy", outside: untried},
		{do: `python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0))'`, works: true},
	}},
	{id: "N9", attempt: "with the whole network: sockets of services that have a path, or an abstract name", required: "only what was allowed", codex: "allowed", escaped: true, tries: []try{
		{call: "a service", says: notPermitted, box: "network"}, {call: "sendmsg", says: notPermitted, box: "network"}, {call: "an abstract socket", says: notPermitted, box: "network"},
		{call: "TCP", works: true, box: "network", outside: untried},
	}},
	{id: "N10", attempt: "with the proxy: TCP straight to other machines", required: "denied", codex: "ENETUNREACH", tries: []try{
		{call: "TCP to another machine", says: "network is unreachable", box: "proxy", outside: untried},
	}},
	{id: "N11", attempt: "with the proxy: sockets with a path, netlink", required: "denied", codex: "EPERM", tries: []try{
		{call: "local sockets", says: notPermitted, box: "proxy"}, {call: "a service", says: notPermitted, box: "proxy"}, {call: "netlink", says: notPermitted, box: "proxy"},
	}},
	{id: "N12", attempt: "through the proxy: hosts that are not listed, or denied, the apex of `*.`, by http, https and SOCKS", required: "403, or a refusal of SOCKS", codex: "403, reply 2", ours: "403, reply 2", tries: []try{
		{do: ask("http://nope.test/"), says: "403", box: "proxy", outside: untried}, {do: ask("http://denied.test/"), says: "403", box: "proxy", outside: untried},
		{do: ask("http://allowed.test/"), says: "403", box: "proxy", outside: untried}, {do: ask("https://nope.test/"), says: "403", box: "proxy", outside: untried},
		{do: socks("nope.test"), says: "reply 2", box: "proxy", outside: untried}, {do: socks("denied.test"), says: "reply 2", box: "proxy", outside: untried},
		{do: `python3 -c 'import os, urllib.request; urllib.request.urlopen("http://127.0.0.1:" + os.environ["PORT"])' 2>&1 | grep -q 'BadStatusLine\|RemoteDisconnected\|502'`, works: true, box: "proxy", outside: untried},
	}, tests: []string{"host/internal/network TestDecide", "host/internal/network TestSOCKS"}},
	{id: "N13", attempt: "the metadata service of clouds, loopback as IPv6 writes it: mapped, translated", required: "denied", codex: "the first two denied, the last not measured", tries: []try{
		{do: ask("http://169.254.169.254/"), says: "403", box: "proxy", outside: untried}, {do: ask("http://[::ffff:127.0.0.1]/"), says: "403", box: "proxy", outside: untried},
		{do: ask("http://[64:ff9b::7f00:1]/"), says: "403", box: "proxy", outside: untried}, {do: ask("http://2130706433/"), says: "403", box: "proxy", outside: untried},
	}},
	{id: "N14", attempt: "an allowed name that leads to this machine between the look and the connection", required: "denied when it is dialled", codex: "looked at again, by its source", ours: "the addresses that were judged are dialled, no others",
		tests: []string{"host/internal/network TestDecide", "host/internal/network TestHTTP"}},
	{id: "N15", attempt: "another host in the Host line than in the request", required: "400", codex: "400", tries: []try{
		{do: asking(`GET http://127.0.0.1/ HTTP/1.1\r\nHost: nope.test\r\n\r\n`), says: "400 Bad Request", box: "proxy", outside: untried},
		{do: asking(`CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: nope.test:443\r\n\r\n`), says: "400 Bad Request", box: "proxy", outside: untried},
	}, tests: []string{"host/internal/network TestHTTP"}},
	{id: "N16", attempt: "another host inside of a tunnel, or as the authority of HTTP/2", required: "refused where tunnels are looked into", codex: "", ours: "cut where the tunnel's TLS begins with another name; what is inside is not looked into, and `limited` refuses all tunnels",
		tests: []string{"host/internal/network TestNamesInTunnels", "host/internal/network TestLimitedMethods"}},
	{id: "N17", attempt: "drop the proxy's variables and connect straight", required: "denied", codex: "ECONNREFUSED", tries: []try{
		{call: "TCP", says: "connection refused", box: "proxy"},
		{do: `env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT'`, says: "Connection refused", box: "proxy"},
	}},
	{id: "N18", attempt: "with `limited`: POST on a connection that began with GET", required: "each request is judged", codex: "", ours: "refused", tests: []string{"host/internal/network TestLimitedMethods"}},
	{id: "N19", attempt: "use the proxy's port of another call", required: "it counts for whose it is, or is refused", codex: "", ours: "each box has a loopback of its own: another's port is not there", tries: []try{
		{do: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128'`, says: refused, outside: untried},
		{do: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128'`, says: "Connection refused", box: "network", outside: untried},
	}, tests: []string{"host/internal/launch/box TestProxiedNetwork"}},
}

// ask fetches a page through the proxy that the variables name.
func ask(url string) string {
	return `python3 -c '
import sys, urllib.request
urllib.request.urlopen("` + url + `", timeout=20)' 2>&1 | tail -1 | tee answer-$$; grep -vq '403\|refused' answer-$$`
}

// asking says something to the proxy, and prints what it answers.
func asking(text string) string {
	return `python3 -c '
import os, socket, urllib.parse
p = urllib.parse.urlparse(os.environ["http_proxy"])
s = socket.create_connection((p.hostname, p.port))
s.sendall(b"` + text + `")
s.shutdown(socket.SHUT_WR)
a = s.makefile("rb").readline().decode()
print(a)
raise SystemExit(0 if " 200 " in a else 1)'`
}

// socks asks the proxy for a host by SOCKS.
func socks(host string) string {
	return `python3 -c '
import os, socket, struct, urllib.parse
p = urllib.parse.urlparse(os.environ["http_proxy"])
s = socket.create_connection((p.hostname, p.port))
s.sendall(b"\x05\x01\x00")
s.recv(2)
h = b"` + host + `"
s.sendall(b"\x05\x01\x00\x03" + bytes([len(h)]) + h + struct.pack(">H", 80))
a = s.recv(10)
print("reply", a[1])
raise SystemExit(a[1])'`
}
