package credential

import (
	"context"
	"time"

	"golang.org/x/oauth2"
)

const (
	// exchangeTimeout bounds one exchange with the vendor.
	exchangeTimeout = 30 * time.Second
	// leaseTimeout bounds the wait for another process that renews or logs in.
	leaseTimeout = exchangeTimeout
	// retryAfter is how long a renewal ahead of time is not tried again after it has failed: a vendor that does not answer
	// would hold up each request.
	retryAfter = time.Minute

	leaseName = "oauth"
)

// renewal is one way to a new token, for all that wait for it.
type renewal struct {
	done  chan struct{} // closed when the other fields are set
	token *token
	err   error
}

// renew gets a new token in place of one that was used, unless somebody else has done so meanwhile.
func (o *OAuth) renew(ctx context.Context, used *token) (*token, error) {
	o.mu.Lock()
	r := o.mu.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		o.mu.renewal = r
		// Not ended with the request that needs it: the vendor may have taken the old token already. It has bounds of its
		// own, and Close waits for it.
		o.work.Go(func() { o.replace(context.WithoutCancel(ctx), used, r) })
	}
	o.mu.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// replace is one renewal.
func (o *OAuth) replace(ctx context.Context, used *token, r *renewal) {
	defer close(r.done)
	r.err = o.vault.Exclusive(ctx, leaseName, leaseTimeout, func(context.Context) (err error) {
		// Not ended with the lease either: what the vendor gives is stored whoever is next.
		if r.token, err = o.newer(ctx, used); err == nil && r.token == nil {
			r.token, err = o.refresh(ctx, used)
		}
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.renewal = nil
	if r.err != nil {
		o.mu.patience = time.Now().Add(retryAfter)
	}
}

// refresh exchanges the refresh token for a new token.
func (o *OAuth) refresh(ctx context.Context, t *token) (*token, error) {
	o.mu.Lock()
	dead, why, unsaved, spent := o.mu.dead, o.mu.why, o.mu.unsaved, o.mu.spent
	o.mu.Unlock()
	switch t.Refresh {
	case "":
		return nil, o.ended("the login has ended, and there is nothing to renew it with", "")
	case dead:
		return nil, why
	case spent:
		return unsaved, o.keep(ctx, unsaved)
	}
	bounded, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	got, err := o.config().TokenSource(o.context(bounded), &oauth2.Token{RefreshToken: t.Refresh}).Token()
	if err != nil {
		err = o.refusal("renew the login", err, t.Refresh, t.Access)
		if isFinal(err) {
			o.mu.Lock()
			o.mu.dead, o.mu.why = t.Refresh, err
			o.mu.Unlock()
		}
		return nil, err
	}
	fresh := newToken(got, o.reg.ClientID, t)
	o.mu.Lock()
	o.mu.unsaved, o.mu.spent = fresh, t.Refresh
	o.mu.Unlock()
	return fresh, o.keep(ctx, fresh)
}

// keep stores a token before it is used: its refresh token may be the only one that still works. Where that fails it is
// tried again by the next renewal.
func (o *OAuth) keep(ctx context.Context, t *token) error {
	if err := o.vault.StoreSecret(ctx, stored, t.text()); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.token = t
	o.mu.unsaved, o.mu.spent = nil, ""
	return nil
}
