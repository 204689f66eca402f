package network

import (
	"fmt"
	"testing"
)

// Equal decisions are audited once, those about new hosts however many there were before, and those about one host up to a limit.
func TestAuditor(t *testing.T) {
	var a auditor
	of := func(host string, port uint16) audited {
		return audited{Request{Protocol: HTTP, Host: host, Port: port}, Allowed, ""}
	}
	if !a.first(of("used", 80)) || a.first(of("used", 80)) || !a.first(of("used", 81)) {
		t.Error("an equal decision is audited twice, or another one not")
	}
	for i := range 3 * maxHosts {
		if !a.first(of(fmt.Sprint(i), 80)) {
			t.Fatalf("the decision about host %d is not audited", i)
		}
		if a.first(of("used", 80)) {
			t.Fatalf("a host that is in use was forgotten after %d others", i)
		}
	}
	if len(a.hosts) > maxHosts || a.order.Len() != len(a.hosts) {
		t.Errorf("%d hosts are remembered", len(a.hosts))
	}
	if !a.first(of("0", 80)) {
		t.Error("a host that was forgotten is not audited again")
	}
	n := 0
	for port := range uint16(1000) {
		if a.first(of("many", port)) {
			n++
		}
	}
	if n != maxAudited {
		t.Errorf("%d decisions about one host are audited", n)
	}
}
