package credential

import (
	"context"
	"time"

	"golang.org/x/oauth2"
)

const (
	// exchangeTimeout limits one exchange with the vendor.
	exchangeTimeout = 30 * time.Second
	// leaseTimeout limits the wait for another process that renews or logs in.
	leaseTimeout = exchangeTimeout
	// retryAfter is how long a failed early renewal is not retried: a vendor that does not respond would delay every request.
	retryAfter = time.Minute

	leaseName = "oauth"
)

// renewal is a renewal in progress, shared by all requests that wait for it.
type renewal struct {
	done  chan struct{} // closed when the other fields are set
	token *token
	err   error
}

// renew replaces a used token, unless another process has done so meanwhile.
func (o *OAuth) renew(ctx context.Context, used *token) (*token, error) {
	o.mu.Lock()
	r := o.mu.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		o.mu.renewal = r
		// The renewal continues if the request is cancelled, because the vendor may have consumed the old token already. It has
		// its own timeouts, and Close waits for it.
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

// replace performs a renewal.
func (o *OAuth) replace(ctx context.Context, used *token, r *renewal) {
	defer close(r.done)
	r.err = o.vault.Exclusive(ctx, leaseName, leaseTimeout, func(context.Context) (err error) {
		// It also continues if the lease is lost: a token that the vendor has issued must be stored in any case.
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
		return nil, o.ended("the login has expired and can't be renewed", "")
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

// keep stores a token before it is used, because its refresh token may be the only valid one. If that fails, the next renewal
// tries again.
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
