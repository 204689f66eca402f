package service

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/contract"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// judgeBrowsing judges the browser effects among effects by the network rules, and returns the hosts to open and the other effects. denial says
// why one of them is refused; "": all are allowed.
func judgeBrowsing(ctx context.Context, cfg Config, l *orchestrate.Live, effects []contract.Effect, reason string) (open []network.Request, rest []contract.Effect, denial string, err error) {
	owner := launch.Owner{Plugin: l.Plugin, Thread: string(l.Call.Thread)}
	for _, e := range effects {
		b, ok := e.(contract.BrowserEffect)
		if !ok {
			rest = append(rest, e)
			continue
		}
		q, err := requestOf(b.Origin)
		if err != nil {
			return nil, nil, "", err
		}
		d := cfg.JudgeHost(ctx, owner, q)
		switch {
		case d.Allow:
		case d.Reason != network.NotAllowed:
			return nil, nil, d.Message(q), nil
		case d.Rule == "" && b.Kind == partOfPage && granted(ctx, cfg, owner, b.Page):
		case !l.Browse(ctx, b, q.Protocol, q.Host, reason, d.Rule):
			return nil, nil, fmt.Sprintf("%s was not allowed: %s", b.Origin, d.Message(q)), nil
		}
		open = append(open, q)
	}
	return open, rest, "", nil
}

// partOfPage is the kind of an effect that is a part of a page: what the user has allowed is the page.
const partOfPage = "frame"

// granted reports whether the origin of a page is allowed.
func granted(ctx context.Context, cfg Config, owner launch.Owner, page string) bool {
	q, err := requestOf(page)
	return err == nil && cfg.JudgeHost(ctx, owner, q).Allow
}

// requestOf returns the connection to an origin, for example https://example.com.
func requestOf(origin string) (q network.Request, err error) {
	u, err := url.Parse(origin)
	if err != nil {
		return q, status.Errorf(codes.InvalidArgument, "invalid origin %q", origin)
	}
	switch u.Scheme {
	case "http", "ws":
		q = network.Request{Protocol: network.HTTP, Port: 80, Method: "GET"}
	case "https", "wss":
		q = network.Request{Protocol: network.HTTPS, Port: 443}
	default:
		return q, status.Errorf(codes.InvalidArgument, "invalid origin %q: its scheme is not http, https, ws or wss", origin)
	}
	q.Host = hosts.Normalize(u.Hostname())
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return q, status.Errorf(codes.InvalidArgument, "invalid origin %q: its port is not valid", origin)
		}
		q.Port = uint16(n)
	}
	if !hosts.Valid(q.Host) {
		return q, status.Errorf(codes.InvalidArgument, "invalid origin %q: its host is not valid", origin)
	}
	return q, nil
}
