// Package network decides which hosts the processes of tools may connect to, and is the proxy through which they have to connect.
//
// It owns: which addresses are local, the decision about a connection, the proxy protocols, the messages about refused connections. It
// must not know: where the rules are written, what a process is, who is asked for approval and how.
//
// Start with [Rules] and [Proxy.Serve]. The proxy dials the addresses that were judged and does not resolve the name again, because
// the answer may have changed.
package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// Pattern is a pattern of hosts.
type Pattern = hosts.Pattern

// Names of protocols in responses, events and questions.
const (
	HTTP   = "http"
	HTTPS  = "https" // CONNECT: only the server name in a ClientHello is inspected, and HTTP without TLS
	SOCKS5 = "socks5"
)

// Reasons of decisions. Matches codex 0.169.
const (
	Allowed          = "allowed"
	Approved         = "approved" // on request
	Denied           = "denied"
	NotAllowed       = "not_allowed" // the only reason for which approval is requested
	NotAllowedLocal  = "not_allowed_local"
	MethodNotAllowed = "method_not_allowed"
	MITMRequired     = "mitm_required"
	PolicyDenied     = "policy_denied"

	BodyNotAllowed    = "body_not_allowed"    // with limited methods
	UpgradeNotAllowed = "upgrade_not_allowed" // with limited methods: the new protocol has none
	Invalid           = "invalid_host"
	NameMismatch      = "name_mismatch" // the allowed connection is for another host
)

// Sources of decisions.
const (
	Baseline  = "baseline_policy" // the rules
	ModeGuard = "mode_guard"      // the limit on methods, and the inspection of tunnels
	Decider   = "decider"         // the person or reviewer who was asked
)

// Rules say which hosts may be reached. Deny takes precedence over the check for local addresses, and that over Allow. A host that is in
// neither list is not allowed, and approval may be requested.
type Rules struct {
	Allow, Deny []Pattern
	// Public are hosts that are allowed at addresses on the internet only, even if they are local addresses literally.
	Public []Pattern
	// Local: allowed names may resolve to addresses of this machine and of private networks. Otherwise such addresses may be
	// reached only if Allow contains them literally: "127.0.0.1", "localhost".
	Local bool
	// Limited allows only GET, HEAD and OPTIONS, and nothing that can't be inspected.
	Limited bool
	// Hosts are rules for single hosts. The strictest rule applies, including those above.
	Hosts []HostRule
	// Upstream returns the proxy through which a host is reached; nil: none, and none for that host. Such a proxy is asked for the name, and
	// resolves it. A name that this machine resolves too must have addresses that may be reached. One that does not exist here is left to
	// the proxy, and so is one that can't be looked up, for example because this machine has no DNS, if the rules allow it literally.
	Upstream func(Request) (*url.URL, error)
	// Closed: no approval is requested for hosts that no rule names; they are denied.
	Closed bool
	// Incomplete: some rules can't be read. Then nothing is allowed without approval.
	Incomplete bool
}

// Only returns the rules for a process that may reach only certain hosts. What the rules deny stays denied, and there is no approval.
func (r Rules) Only(allow []Pattern) Rules {
	r.Allow, r.Public = allow, nil
	r.Hosts = slices.DeleteFunc(slices.Clone(r.Hosts), func(h HostRule) bool { return h.Verdict == Allow })
	return r
}

// AndPublic returns the rules for a process that may reach further hosts, at addresses on the internet.
func (r Rules) AndPublic(allow []Pattern) Rules {
	r.Public = slices.Concat(r.Public, allow)
	return r
}

// HostRule is a rule for one host. A rule that allows applies to its protocol; one that asks or denies applies to all, because otherwise
// a client could use another protocol.
type HostRule struct {
	Host     string // normalised
	Protocol string
	Verdict  Verdict
	Where    string // where it is written, for messages
}

// Verdict is the effect of a rule. A stricter one is larger.
type Verdict int

// The verdicts; Unknown means that no rule applies.
const (
	Unknown Verdict = iota
	Allow
	Ask
	Deny
)

// Request is a connection that a client requests.
type Request struct {
	Protocol string
	Host     string // normalised
	Port     uint16
	Method   string // of an HTTP request
}

// Target returns host and port.
func (r Request) Target() string { return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))) }

// URL returns the target as a URL.
func (r Request) URL() string { return r.Protocol + "://" + r.Target() }

// Decision is the decision about a request.
type Decision struct {
	Allow     bool
	Reason    string
	Source    string
	Rule      string // where the [HostRule] that decided is written; empty: none did
	NamedHost string // with NameMismatch: the host that the client named; empty: none, or it can't be read
	// Addresses are the addresses to dial, in this order; only with Allow.
	Addresses []netip.AddrPort
	// Via is the proxy that is asked to connect to Target, which is host and port, instead; nil: none.
	Via    *url.URL
	Target string
	// Unresolved says why the name has no address; nil: it has one, or was not looked up. Reason is NotAllowedLocal, as with codex.
	Unresolved error
	// unresolvedVia: there is a proxy, but the name is not left to it.
	unresolvedVia bool
	err           error // Via can't be used
}

// NoSuchHost reports whether the name does not exist.
func (d Decision) NoSuchHost() bool {
	e, ok := errors.AsType[*net.DNSError](d.Unresolved)
	return ok && e.IsNotFound || errors.Is(d.Unresolved, errUnresolved)
}

// key is a host name that is the same for decisions that lead to the same addresses for the same host.
func (d Decision) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %v %v", d.Target, d.Via, d.Addresses))
	return hex.EncodeToString(sum[:16])
}

// Message explains why a request was refused.
func (d Decision) Message(r Request) string {
	switch d.Reason {
	case Denied:
		return fmt.Sprintf("%s is denied by the network rules", r.Host)
	case NotAllowed:
		return fmt.Sprintf("%s is not among the hosts that the network rules allow", r.Host)
	case NotAllowedLocal:
		switch {
		case d.NoSuchHost():
			return fmt.Sprintf("there is no host %s", r.Host)
		case d.unresolvedVia:
			return fmt.Sprintf("the name %s can't be resolved at the moment, and is not left to your network's proxy, because the configuration does not allow it literally, without a wildcard", r.Host)
		case d.Unresolved != nil:
			return fmt.Sprintf("the name %s can't be resolved at the moment", r.Host)
		}
		return fmt.Sprintf("%s is on this machine or in a private network, or its name can't be resolved", r.Host)
	case MethodNotAllowed:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, not %s", r.Method)
	case BodyNotAllowed:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, and this %s has a body", r.Method)
	case UpgradeNotAllowed:
		return "the network rules allow only GET, HEAD and OPTIONS, not a change of protocol (Upgrade)"
	case MITMRequired:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, and %s can't be inspected", r.Protocol)
	case NameMismatch:
		if d.NamedHost == "" {
			return fmt.Sprintf("the connection through %s does not begin with a request for that host", r.Host)
		}
		return fmt.Sprintf("the connection through %s is for %q, but only the first was allowed", r.Host, d.NamedHost)
	case Invalid:
		return fmt.Sprintf("%q is not a valid host", r.Host)
	}
	return fmt.Sprintf("the network access to %s was denied", r.Host)
}

// Resolver resolves names; [net.Resolver] implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTimeout limits the resolution of a name. Matches codex 0.169.
const resolveTimeout = 2 * time.Second

// unreadable replaces the place of a rule if Rules.Incomplete decides.
const unreadable = "(rules that can't be read)"

// errUnresolved: the name has no addresses.
var errUnresolved = errors.New("the name has no addresses")

// Decide judges a request. It does not resolve a name that is not allowed, because the query could carry data out.
func (r Rules) Decide(ctx context.Context, q Request, resolve Resolver) Decision {
	refuse := func(reason string) Decision { return Decision{Reason: reason, Source: Baseline} }
	if !hosts.Valid(q.Host) {
		return refuse(Invalid)
	}
	if matches(r.Deny, q.Host, q.Port) {
		return refuse(Denied)
	}
	verdict, where := r.rule(q)
	if verdict == Deny {
		return Decision{Reason: Denied, Source: Baseline, Rule: where}
	}
	if r.Limited && q.Protocol != HTTP {
		return Decision{Reason: MITMRequired, Source: ModeGuard}
	}
	if r.Limited && !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, q.Method) {
		return Decision{Reason: MethodNotAllowed, Source: ModeGuard}
	}
	literal := r.literal(q)
	address, err := netip.ParseAddr(q.Host)
	switch {
	case err == nil && !literal && !r.Local && !Public(address), err != nil && looksNumeric(q.Host):
		return refuse(NotAllowedLocal)
	case err != nil && loopbackName(q.Host) && !literal && !r.Local:
		return refuse(NotAllowedLocal)
	case r.Closed && where == "" && (r.Incomplete || !r.names(q)):
		return refuse(Denied)
	case r.Incomplete && where == "":
		return Decision{Reason: NotAllowed, Source: Baseline, Rule: unreadable}
	case r.Incomplete, verdict == Ask, !r.names(q):
		return Decision{Reason: NotAllowed, Source: Baseline, Rule: where}
	}
	return r.reach(ctx, q, resolve, Decision{Allow: true, Reason: Allowed, Source: Baseline, Rule: where})
}

// Approve judges a request that was approved. Local addresses remain out of reach.
func (r Rules) Approve(ctx context.Context, q Request, resolve Resolver) Decision {
	return r.reach(ctx, q, resolve, Decision{Allow: true, Reason: Approved, Source: Decider})
}

// reach adds the addresses of the host to a decision, if all of them may be reached.
func (r Rules) reach(ctx context.Context, q Request, resolve Resolver, d Decision) Decision {
	d.Target = q.Target()
	if r.Upstream != nil {
		d.Via, d.err = r.Upstream(q)
	}
	addresses, err := addressesOf(ctx, q.Host, resolve)
	if err != nil {
		refused := Decision{Reason: NotAllowedLocal, Source: Baseline, Unresolved: err}
		if d.Via == nil && d.err == nil {
			return refused
		}
		// After any other error the name may have a local address, and whoever answers for a name can cause such an error. The host itself
		// was named by the user.
		_, dns := errors.AsType[*net.DNSError](err)
		if refused.NoSuchHost() || dns && r.literal(q) {
			return d
		}
		refused.unresolvedVia = true
		return refused
	}
	for _, a := range addresses {
		if r.Local || Public(a) || r.literal(Request{Protocol: q.Protocol, Host: a.String(), Port: q.Port}) || a.IsLoopback() && loopbackName(q.Host) && r.literal(q) {
			d.Addresses = append(d.Addresses, netip.AddrPortFrom(a, q.Port))
			continue
		}
		// A single address that may not be reached refuses the name: a server that answers so wants it to be dialled.
		return Decision{Reason: NotAllowedLocal, Source: Baseline}
	}
	return d
}

// rule returns the verdict of the strictest rule for a host, and where that is written.
func (r Rules) rule(q Request) (v Verdict, where string) {
	for _, h := range r.Hosts {
		if h.Host == q.Host && h.Verdict > v && (h.Verdict != Allow || h.Protocol == q.Protocol) {
			v, where = h.Verdict, h.Where
		}
	}
	return v, where
}

// names reports whether the rules allow a host, literally or by a pattern.
func (r Rules) names(q Request) bool {
	return r.literal(q) || matches(r.Allow, q.Host, q.Port) || matches(r.Public, q.Host, q.Port)
}

// literal reports whether the rules allow a host literally, without a wildcard.
func (r Rules) literal(q Request) bool {
	if v, _ := r.rule(q); v == Allow {
		return true
	}
	return slices.ContainsFunc(r.Allow, func(p Pattern) bool { return p.Literal() && p.Match(q.Host, q.Port) })
}

func addressesOf(ctx context.Context, host string, resolve Resolver) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := resolve.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errUnresolved
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first, which works more often
	return found, nil
}

func matches(patterns []Pattern, host string, port uint16) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(host, port) })
}

// loopbackName reports whether a name denotes this machine by convention.
func loopbackName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// looksNumeric reports whether some programs and resolvers would parse a name as an address.
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return false
	}
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last[0] >= '0' && last[0] <= '9' && strings.Trim(last, "0123456789") == ""
}
