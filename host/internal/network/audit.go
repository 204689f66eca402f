package network

import (
	"container/list"
	"sync"
)

const (
	// maxHosts limits the hosts whose decisions are remembered, so that equal ones are not audited again.
	maxHosts = 500
	// maxAudited limits the different decisions about one host, such as those about its ports; further ones are not audited.
	maxAudited = 50
)

// auditor tells equal decisions of one process tree. It forgets the host that was not used for the longest time, so a tree that lives for
// days, such as a browser, has its decisions about new hosts audited as well.
type auditor struct {
	mu    sync.Mutex
	hosts map[string]*list.Element // of order
	order list.List                // of *auditedHost; the one that was used last is at the end
}

type auditedHost struct {
	name string
	seen map[audited]bool
}

// audited is the key of equal decisions.
type audited struct {
	Request
	reason string
	named  string
}

// first reports whether a decision has to be audited.
func (a *auditor) first(k audited) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.hosts[k.Host]
	if e == nil {
		if a.hosts == nil {
			a.hosts = map[string]*list.Element{}
		}
		if len(a.hosts) >= maxHosts {
			oldest := a.order.Remove(a.order.Front()).(*auditedHost)
			delete(a.hosts, oldest.name)
		}
		e = a.order.PushBack(&auditedHost{name: k.Host, seen: map[audited]bool{}})
		a.hosts[k.Host] = e
	}
	a.order.MoveToBack(e)
	h := e.Value.(*auditedHost)
	if h.seen[k] || len(h.seen) >= maxAudited {
		return false
	}
	h.seen[k] = true
	return true
}
