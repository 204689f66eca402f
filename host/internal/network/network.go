// Package network decides which hosts the processes of tools may reach, and is the proxy by which alone they reach them.
//
// It owns: what counts as local, the decision about a connection, the proxy protocols, the words with
// which a connection is refused. It must not know: where the rules are written, what a process is, who is asked or how.
//
// Start with [Rules], what may be reached, and [Proxy.Serve]. The proxy dials the addresses that were judged, not the name
// again: what a name means may change in between.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// Pattern is a pattern of hosts.
type Pattern = hosts.Pattern

// Protocols, as answers, events and questions name them.
const (
	HTTP   = "http"
	HTTPS  = "https" // CONNECT: of what is inside only the name in a TLS client's first message is read, and HTTP without TLS
	SOCKS5 = "socks5"
)

// Reasons of decisions. Matches codex 0.169.
const (
	Allowed          = "allowed"
	Approved         = "approved" // somebody was asked
	Denied           = "denied"
	NotAllowed       = "not_allowed" // the only one that is asked about
	NotAllowedLocal  = "not_allowed_local"
	MethodNotAllowed = "method_not_allowed"
	MITMRequired     = "mitm_required"
	PolicyDenied     = "policy_denied"

	BodyNotAllowed    = "body_not_allowed"    // limited methods have none
	UpgradeNotAllowed = "upgrade_not_allowed" // what follows an upgrade can't be judged by its methods
	Invalid           = "invalid_host"
	NameMismatch      = "name_mismatch" // the connection that was allowed turned out to be for another host
)

// Sources of decisions.
const (
	Baseline  = "baseline_policy" // the rules
	ModeGuard = "mode_guard"      // the methods, and what is said in a tunnel
	Decider   = "decider"         // who was asked
)

// Rules say what may be reached. Denied beats local beats allowed; what is neither is not allowed, and may be asked about.
type Rules struct {
	Allow, Deny []Pattern
	// Local: addresses of this machine and of private networks may be reached by allowed names. Otherwise only those that
	// Allow has as they are: "127.0.0.1", "localhost".
	Local bool
	// Limited: only GET, HEAD and OPTIONS, and nothing that can't be looked into.
	Limited bool
	// Hosts are rules for single hosts. The strictest counts, also of those above.
	Hosts []HostRule
	// Unsure: some rules can't be read. Nothing is allowed then, so that everything is asked about.
	Unsure bool
}

// HostRule is a rule for one host. One that allows is for its protocol alone, one that asks or denies for all: who is kept from a
// host by one way is not to take another.
type HostRule struct {
	Host     string // normalised
	Protocol string
	Verdict  Verdict
	Where    string // its place, for people
}

// Verdict is what a rule says. A stricter one is larger.
type Verdict int

// The verdicts; unknown is what no rule says.
const (
	Unknown Verdict = iota
	Allow
	Ask
	Deny
)

// Request is a connection that somebody wants.
type Request struct {
	Protocol string
	Host     string // normalised
	Port     uint16
	Method   string // of HTTP
}

// Target is host and port.
func (r Request) Target() string { return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))) }

// URL is the target as a person reads it.
func (r Request) URL() string { return r.Protocol + "://" + r.Target() }

// Decision is what became of a request.
type Decision struct {
	Allow  bool
	Reason string
	Source string
	Rule   string // the place of the [HostRule] that decided; empty: none did
	Named  string // with NameMismatch: the host that the TLS client named; empty: none, or nothing that can be read
	// Addresses are what may be dialled, in this order; with Allow only.
	Addresses []netip.AddrPort
}

// Message says in words why a request was refused.
func (d Decision) Message(r Request) string {
	switch d.Reason {
	case Denied:
		return fmt.Sprintf("%s is denied by the network rules", r.Host)
	case NotAllowed:
		return fmt.Sprintf("%s is not among the hosts that the network rules allow", r.Host)
	case NotAllowedLocal:
		return fmt.Sprintf("%s is an address of this machine or of a private network, or its name can't be resolved", r.Host)
	case MethodNotAllowed:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, not %s", r.Method)
	case BodyNotAllowed:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, and this %s has a body", r.Method)
	case UpgradeNotAllowed:
		return "the network rules allow only GET, HEAD and OPTIONS, and not a change of the protocol (Upgrade)"
	case MITMRequired:
		return fmt.Sprintf("the network rules allow only GET, HEAD and OPTIONS, and %s can't be looked into", r.Protocol)
	case NameMismatch:
		if d.Named == "" {
			return fmt.Sprintf("the connection through %s does not begin with a request for that host", r.Host)
		}
		return fmt.Sprintf("the connection through %s is for %q, and has to be for the host that was allowed", r.Host, d.Named)
	case Invalid:
		return fmt.Sprintf("%q is no host", r.Host)
	}
	return fmt.Sprintf("the network access to %s was denied", r.Host)
}

// Resolver finds the addresses of a name; [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTimeout is how long a name may take to resolve. Matches codex 0.169.
const resolveTimeout = 2 * time.Second

// unreadable stands for the place of rules that can't be read.
const unreadable = "(rules that can't be read)"

// errUnresolved: a name has no addresses.
var errUnresolved = errors.New("the name has no addresses")

// Decide judges a request. A name that is not allowed is not resolved: asking for it would be a way out, too.
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
	case r.Unsure && where == "":
		return Decision{Reason: NotAllowed, Source: Baseline, Rule: unreadable}
	case r.Unsure, verdict == Ask, !literal && !matches(r.Allow, q.Host, q.Port):
		return Decision{Reason: NotAllowed, Source: Baseline, Rule: where}
	}
	return r.reach(ctx, q, resolve, Decision{Allow: true, Reason: Allowed, Source: Baseline, Rule: where})
}

// Approve judges a request that somebody has allowed. Local addresses and denied hosts stay out of reach.
func (r Rules) Approve(ctx context.Context, q Request, resolve Resolver) Decision {
	return r.reach(ctx, q, resolve, Decision{Allow: true, Reason: Approved, Source: Decider})
}

// reach finds the addresses of a host that may be reached.
func (r Rules) reach(ctx context.Context, q Request, resolve Resolver, d Decision) Decision {
	addresses, err := addressesOf(ctx, q.Host, resolve)
	if err != nil {
		return Decision{Reason: NotAllowedLocal, Source: Baseline}
	}
	for _, a := range addresses {
		if r.Local || Public(a) || r.literal(Request{Protocol: q.Protocol, Host: a.String(), Port: q.Port}) || a.IsLoopback() && loopbackName(q.Host) && r.literal(q) {
			d.Addresses = append(d.Addresses, netip.AddrPortFrom(a, q.Port))
			continue
		}
		// One address that is out of reach condemns the name: who answers so wants to be dialled there.
		return Decision{Reason: NotAllowedLocal, Source: Baseline}
	}
	return d
}

// rule is the strictest rule for a host, and its place.
func (r Rules) rule(q Request) (v Verdict, where string) {
	for _, h := range r.Hosts {
		if h.Host == q.Host && h.Verdict > v && (h.Verdict != Allow || h.Protocol == q.Protocol) {
			v, where = h.Verdict, h.Where
		}
	}
	return v, where
}

// literal reports whether the rules allow a host as it is, without a wildcard.
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
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first: it is what works
	return found, nil
}

func matches(patterns []Pattern, host string, port uint16) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(host, port) })
}

// loopbackName reports whether a name means this machine by what it is called.
func loopbackName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// looksNumeric reports whether a name would be read as an address by some programs, which a resolver may do, too.
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return false
	}
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last[0] >= '0' && last[0] <= '9' && strings.Trim(last, "0123456789") == ""
}
