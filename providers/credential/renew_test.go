package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/providers/credential/credentialtest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const day = 24 * time.Hour

// When a token is renewed, and what becomes of one that can't be.
func TestToken(t *testing.T) {
	down := credentialtest.Failure{Status: 503, Body: "-"}
	tests := map[string]struct {
		lifetime time.Duration
		after    time.Duration
		change   func(*token)
		failure  []credentialtest.Failure
		renewed  int
		want     string // of the error; empty: none
		code     llm.ErrorCode
		next     string
	}{
		"fresh":                       {lifetime: time.Hour},
		"six minutes left":            {lifetime: time.Hour, after: 54 * time.Minute},
		"five minutes left":           {lifetime: time.Hour, after: 55 * time.Minute, renewed: 1},
		"ended":                       {lifetime: time.Hour, after: 2 * time.Hour, renewed: 1},
		"short-lived, young":          {lifetime: time.Minute, after: 29 * time.Second},
		"short-lived, old":            {lifetime: time.Minute, after: 30 * time.Second, renewed: 1},
		"without an end, 8 days":      {after: 8 * day},
		"without an end, more":        {after: 8*day + time.Second, renewed: 1},
		"nothing to renew, young":     {lifetime: time.Hour, after: 59 * time.Minute, change: func(t *token) { t.Refresh = "" }},
		"nothing to renew, no end":    {after: 100 * day, change: func(t *token) { t.Refresh = "" }},
		"vendor down, still good":     {lifetime: time.Hour, after: 56 * time.Minute, failure: []credentialtest.Failure{down}},
		"vendor down, no end":         {after: 9 * day, failure: []credentialtest.Failure{down}},
		"refused for good, not ended": {lifetime: time.Hour, after: 56 * time.Minute, failure: []credentialtest.Failure{{Status: 401, Body: "-"}}},
		"nothing to renew, ended": {
			lifetime: time.Hour, after: time.Hour, change: func(t *token) { t.Refresh = "" },
			want: "can't be renewed", code: llm.ErrAuthentication, next: "`gantry login p`",
		},
		"vendor down, ended": {
			lifetime: time.Hour, after: time.Hour, failure: []credentialtest.Failure{down},
			want: "renew the login: localhost answers with status 503", code: llm.ErrTransport, next: "later",
		},
		"too many": {
			lifetime: time.Hour, after: time.Hour, failure: []credentialtest.Failure{{Status: 429, Body: `{"error":{"type":"rate_limit","message":"slowly"}}`}},
			want: "rate_limit (slowly)", code: llm.ErrTransport, next: "later",
		},
		"cut": {
			lifetime: time.Hour, after: time.Hour, failure: []credentialtest.Failure{{}},
			want: "renew the login: localhost: EOF", code: llm.ErrTransport, next: "localhost is reachable",
		},
		"refused by status": {
			lifetime: time.Hour, after: time.Hour, failure: []credentialtest.Failure{{Status: 401, Body: "no"}},
			want: "rejected it permanently: status 401", code: llm.ErrAuthentication, next: "`gantry login p`",
		},
		"another client": {
			change: func(t *token) { t.Client = "other" }, want: "belongs to another client_id", code: llm.ErrAuthentication, next: "`gantry login p`",
		},
		"damaged": {change: func(t *token) { t.Access = "" }, want: "can't be read", code: llm.ErrAuthentication, next: "`gantry login p`"},
	}
	for _, form := range []string{
		`{"error":"invalid_grant","error_description":"gone"}`, `{"error":{"code":"refresh_token_expired","message":"gone"}}`,
		`{"error":{"type":"refresh_token_reused","message":"gone"}}`, `{"error":{"message":"gone"},"code":"refresh_token_invalidated"}`,
	} {
		tt := tests["refused by status"]
		tt.failure, tt.want = []credentialtest.Failure{{Status: 400, Body: form}}, " (gone)"
		tests["refused by name: "+form] = tt
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, credentialtest.Config{Lifetime: tt.lifetime}, func(t *testing.T, w *world) {
				w.loggedIn()
				kept := w.stored()
				if tt.change != nil {
					tt.change(kept)
					w.vault.values[stored] = kept.text()
				}
				w.passes(tt.after)
				w.vendor.Fail(tt.failure...)
				o := w.instance()
				before := w.requests()
				for range 3 {
					got, err := o.Token(t.Context())
					if tt.want != "" {
						w.refuses(err, tt.code, tt.want, tt.next)
						break
					}
					if err != nil || (got == kept.Access) != (tt.renewed == 0) {
						t.Fatalf("the same token: %v, error %v", got == kept.Access, err)
					}
				}
				if n := w.vendor.Granted("refresh_token"); n != tt.renewed {
					t.Errorf("renewed %d times, want %d", n, tt.renewed)
				}
				if tt.renewed == 0 && w.requests()-before > len(tt.failure) {
					t.Errorf("asked %d times", w.requests()-before)
				}
			})
		})
	}
}

// While the token holds, a vendor that is down is not asked for another with each request, and is asked again later.
func TestPatience(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(56 * time.Minute)
		w.vendor.Fail(credentialtest.Failure{Hang: true})
		before, began := w.requests(), time.Now()
		for range 5 {
			w.token(o)
		}
		if n, took := w.requests()-before, time.Since(began); n != 1 || took != exchangeTimeout {
			t.Errorf("asked %d times in %v", n, took)
		}
		w.passes(retryAfter)
		w.token(o)
		if n := w.vendor.Granted("refresh_token"); n != 1 {
			t.Errorf("renewed %d times", n)
		}
	})
}

// A vendor that gives no new refresh token means that the old one stays.
func TestRefreshTokenThatStays(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour, KeepRefresh: true, Account: "ann"}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		first := w.stored()
		for range 3 {
			w.passes(time.Hour)
			w.token(o)
		}
		if now := w.stored(); now.Refresh != first.Refresh || now.Account != first.Account || now.Access == first.Access {
			t.Error("the stored token is another login")
		}
		// Nor does it have to say again whose the token is.
		w.passes(time.Hour)
		w.vendor.Fail(credentialtest.Failure{Status: 200, Body: `{"access_token":"the-next","expires_in":3600}`})
		if got, err := o.Token(t.Context()); got != "the-next" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if now := w.stored(); now.Refresh != first.Refresh || now.Account != first.Account {
			t.Error("the stored token is another login")
		}
	})
}

// All who need a token while the vendor hangs wait for the same answer, not one behind the other.
func TestOneWaitForAll(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(time.Hour)
		w.vendor.Fail(credentialtest.Failure{Hang: true})
		began, before := time.Now(), w.requests()
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() {
				_, err := o.Token(t.Context())
				w.refuses(err, llm.ErrTransport, "no response in time", "")
			})
		}
		asking.Wait()
		if took, n := time.Since(began), w.requests()-before; took != exchangeTimeout || n != 1 {
			t.Errorf("%d requests in %v", n, took)
		}
	})
}

// Requests of one process and of several renew once, and all go on with the same token.
func TestRenewedOnce(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		w.loggedIn()
		var all []*OAuth
		for range 5 {
			o := w.instance()
			w.token(o) // each has it in memory
			all = append(all, o)
		}
		for round := range 3 {
			w.passes(time.Hour)
			w.slow(time.Second)
			var asking sync.WaitGroup
			tokens := make(chan string, 100)
			for _, o := range all {
				for range 4 {
					asking.Go(func() {
						got, err := o.Token(t.Context())
						if err != nil {
							t.Error(err)
						}
						tokens <- got
					})
				}
			}
			asking.Wait()
			close(tokens)
			seen := map[string]bool{}
			for got := range tokens {
				seen[got] = true
			}
			if n := w.vendor.Granted("refresh_token"); len(seen) != 1 || n != round+1 || len(w.vendor.Refused()) > 0 {
				t.Errorf("round %d: %d tokens, renewed %d times, refused %q", round, len(seen), n, w.vendor.Refused())
			}
		}
	})
}

// All requests that were under way with a token that the vendor has ended get one new one.
func TestRecoveredOnce(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		old := w.token(o)
		w.vendor.Revoke()
		for range 3 { // side by side, and those whose answers come late
			var recovering sync.WaitGroup
			for range 4 {
				recovering.Go(func() {
					if done, err := o.Recover(t.Context(), []string{"other", old}); !done || err != nil {
						t.Errorf("recover: %v, %v", done, err)
					}
				})
			}
			recovering.Wait()
		}
		w.token(o)
		if n := w.vendor.Granted("refresh_token"); n != 1 {
			t.Errorf("renewed %d times", n)
		}
	})
}

// What another process has stored meanwhile is taken without asking the vendor, if it is the same person's.
func TestRecoverTakesWhatIsStored(t *testing.T) {
	for name, tt := range map[string]struct {
		again string // who logs in elsewhere
		want  string
	}{
		"the same person":  {again: "ann"},
		"somebody unknown": {again: ""},
		"somebody else":    {again: "bob", want: "another account"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, credentialtest.Config{Lifetime: time.Hour, Account: "ann"}, func(t *testing.T, w *world) {
				o := w.loggedIn()
				old := w.token(o)
				w.vendor.Revoke()
				w.vendor.As(tt.again)
				newer := w.token(w.loggedIn())
				done, err := o.Recover(t.Context(), []string{old})
				if tt.want != "" {
					w.refuses(err, llm.ErrAuthentication, tt.want, "restart gantry")
				} else if !done || err != nil || w.token(o) != newer {
					t.Errorf("recover: %v, %v", done, err)
				}
				if n := w.vendor.Granted("refresh_token"); n != 0 {
					t.Errorf("renewed %d times", n)
				}
			})
		})
	}
}

// A refusal for good is remembered: nobody is asked again until somebody has logged in, in whatever process.
func TestRefusedForGood(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		old := w.token(o)
		w.vendor.Revoke()
		w.vendor.Fail(credentialtest.Failure{Status: 400, Body: `{"error":{"code":"refresh_token_reused","message":"used"}}`})
		done, err := o.Recover(t.Context(), []string{old})
		if done {
			t.Error("recovered")
		}
		w.refuses(err, llm.ErrAuthentication, "refresh_token_reused (used)", "`gantry login p`")
		before := w.requests()
		for range 3 {
			_, err = o.Token(t.Context())
			w.refuses(err, llm.ErrAuthentication, "refresh_token_reused (used)", "`gantry login p`")
			if done, err := o.Recover(t.Context(), []string{old}); done || err == nil {
				t.Errorf("recover again: %v, %v", done, err)
			}
		}
		if n := w.requests() - before; n != 0 {
			t.Errorf("asked %d times more", n)
		}
		w.loggedIn()
		w.token(o)
	})
}

func TestNothingToRecover(t *testing.T) {
	inWorld(t, credentialtest.Config{}, func(t *testing.T, w *world) {
		if done, err := w.instance().Recover(t.Context(), []string{"x"}); done || err != nil {
			t.Errorf("before any token was used: %v, %v", done, err)
		}
		o := w.loggedIn()
		old := w.token(o)
		if _, err := w.instance().Logout(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.vendor.Revoke()
		_, err := o.Recover(t.Context(), []string{old})
		w.refuses(err, llm.ErrAuthentication, "not logged in", "`gantry login p`")
	})
}

// A token is stored before anybody has it: a process that is killed at any moment leaves the one that works.
func TestStoredBeforeUse(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(time.Hour)
		gate := make(chan struct{})
		w.vault.gate = gate
		got := make(chan string)
		go func() { // owned by the test, which receives
			access, err := o.Token(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- access
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("used before it was stored")
		default:
		}
		if w.vendor.Granted("refresh_token") != 1 {
			t.Fatal("not renewed")
		}
		close(gate)
		if access := <-got; w.stored().Access != access || w.token(w.instance()) != access {
			t.Error("another process does not have it")
		}
	})
}

// A new token that can't be stored is kept until it can be: its refresh token is the only one that works.
func TestStoreThatFails(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(time.Hour)
		full := errors.New("the disk is full")
		w.vault.broken = full
		for range 3 {
			if _, err := o.Token(t.Context()); !errors.Is(err, full) {
				t.Errorf("error = %v", err)
			} else {
				w.silent(err)
			}
		}
		w.vault.broken = nil
		if got := w.token(o); got != w.stored().Access {
			t.Error("the stored token is another one")
		}
		if n := w.vendor.Granted("refresh_token"); n != 1 {
			t.Errorf("renewed %d times", n)
		}
	})
}

// Who gives up on a request does not give up the token that the vendor is about to give.
func TestInterruptedWhileRenewing(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(time.Hour)
		w.slow(10 * time.Second)
		why := errors.New("interrupted")
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer stop()
		began := time.Now()
		if _, err := o.Token(ctx); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("interrupted: %v after %v", err, time.Since(began))
		}
		o.Close() // waits
		if n := w.vendor.Granted("refresh_token"); n != 1 || w.token(w.instance()) != w.stored().Access {
			t.Errorf("renewed %d times", n)
		}
	})
}

// An answer that is lost after the vendor has exchanged the token costs the login: that is told, once and plainly.
func TestAnswerThatIsLost(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		o := w.loggedIn()
		w.passes(time.Hour)
		w.vendor.Fail(credentialtest.Failure{After: true})
		_, err := o.Token(t.Context())
		w.refuses(err, llm.ErrTransport, "EOF", "")
		_, err = o.Token(t.Context())
		w.refuses(err, llm.ErrAuthentication, "refresh_token_reused (the token <redacted> was used before)", "`gantry login p`")
	})
}

// Whatever a vendor answers, nothing of what was sent shows up, and not its body.
func TestNothingIsShown(t *testing.T) {
	const mark = "<<<a body of the vendor's>>>"
	for _, form := range []string{
		`%s %s`, `{"error":"server_error","error_description":"%s\n%s"}`, `{"error":"%s","body":"%s"}`, `{"error":{"code":"%s","message":"Bearer %s"}}`,
		`{"access_token":{"a":"%s"},"x":"%s"}`, `{"access_token":1234567890123,"refresh_token":"%s","x":"%s"}`, `{"error":"invalid_grant","error_uri":"https://v.test/%s","b":"%s"}`,
	} {
		for _, status := range []int{200, 400, 401, 500} {
			t.Run(fmt.Sprint(status, form), func(t *testing.T) {
				inWorld(t, credentialtest.Config{Lifetime: time.Hour, ClientSecret: "s3cret-of-the-client"}, func(t *testing.T, w *world) {
					reg := w.registration()
					reg.ClientSecret = "s3cret-of-the-client"
					o := w.as(reg)
					if err := o.Browser(t.Context(), w.browse); err != nil {
						t.Fatal(err)
					}
					w.passes(time.Hour)
					kept := w.stored()
					for _, secret := range []string{kept.Refresh, kept.Access, reg.ClientSecret} {
						w.vendor.Fail(credentialtest.Failure{Status: status, Body: fmt.Sprintf(form, secret, mark)})
					}
					for range 3 {
						_, err := o.Token(t.Context())
						if err == nil {
							t.Fatal("no error")
						}
						w.silent(err)
						if strings.Contains(err.Error(), mark) && !strings.Contains(form, "message") || strings.Contains(err.Error(), "1234567890123") {
							t.Errorf("%q shows the body", err)
						}
					}
					w.silent(o)
					w.silent(fmt.Sprintf("%#v %v %+v %#v", o, kept, *kept, reg))
				})
			})
		}
	}
}

func FuzzAccount(f *testing.F) {
	f.Add("")
	f.Add("e30.eyJpc3MiOiJpIiwic3ViIjoicyJ9.c2ln")
	f.Add("..")
	f.Add("a.!!.b")
	f.Add("a.bnVsbA.b")
	f.Fuzz(func(t *testing.T, text string) {
		if got := account(text); got != "" && strings.Count(text, ".") != 2 {
			t.Errorf("%q is of %q", text, got)
		}
		kept, ok := parse(text)
		if ok && kept.Access == "" {
			t.Errorf("%q is a token", text)
		}
		if ok && json.Valid([]byte(text)) == false {
			t.Errorf("%q is no JSON and a token", text)
		}
	})
}
