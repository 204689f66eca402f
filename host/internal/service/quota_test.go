package service_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a plugin has the host keep is bounded. It reads which limit that is, its user reads of it once, and others are not concerned.
func TestQuotas(t *testing.T) {
	t.Parallel()
	state := func(c gantryv1.HostServiceClient, i int) error {
		_, err := c.PutState(t.Context(), &gantryv1.PutStateRequest{Key: fmt.Sprint("key", i), Value: make([]byte, 1000)})
		return err
	}
	artifact := func(c gantryv1.HostServiceClient, i int) error {
		up, err := c.PutArtifact(t.Context())
		if err != nil {
			return err
		}
		for range 10 {
			if up.Send(&gantryv1.PutArtifactRequest{MediaType: "text/plain", Name: "a", Data: bytes.Repeat([]byte{byte(i)}, 100)}) != nil {
				break // the answer says why
			}
		}
		_, err = up.CloseAndRecv()
		return err
	}
	labelled := func(c gantryv1.HostServiceClient, i int) error {
		up, err := c.PutArtifact(t.Context())
		if err != nil {
			return err
		}
		if err := up.Send(&gantryv1.PutArtifactRequest{MediaType: "a/" + strings.Repeat("x", 1000), Data: []byte{byte(i)}}); err != nil {
			return err
		}
		_, err = up.CloseAndRecv()
		return err
	}
	secret := func(c gantryv1.HostServiceClient, i int) error {
		_, err := c.StoreSecret(t.Context(), &gantryv1.StoreSecretRequest{Name: fmt.Sprint("s", i), Value: strings.Repeat("x", 1000)})
		return err
	}
	for name, tc := range map[string]struct {
		setting string
		limit   int
		put     func(c gantryv1.HostServiceClient, i int) error
	}{
		"state": {"state", 5000, state}, "artifacts": {"artifacts", 25500, artifact}, "artifacts that are all label": {"artifacts", 25500, labelled},
		"secrets": {"state", 25500, secret},
	} {
		t.Run(name, func(t *testing.T) {
			setting := tc.setting
			t.Parallel()
			w := newWorld(t)
			w.quota = service.Quota{State: int64(tc.limit), Artifacts: int64(tc.limit)}
			mine, other := w.client("mine"), w.client("other")
			kept := 0
			for i := range 8 {
				err := tc.put(mine, i)
				switch {
				case err == nil:
					kept++
				case code(err) != codes.ResourceExhausted || !strings.Contains(status.Convert(err).Message(), fmt.Sprint(tc.limit, " bytes")) || !strings.Contains(err.Error(), "limits { "+setting+" }"):
					t.Errorf("%d: %v", i, err)
				}
			}
			if kept != 4 && kept != 5 {
				t.Errorf("%d were kept", kept)
			}
			if err := tc.put(other, 1); err != nil {
				t.Errorf("another plugin: %v", err)
			}
			if got := strings.Join(w.exceeded, ","); got != "mine "+setting {
				t.Errorf("the user reads %q", got)
			}
		})
	}
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.quota = service.Quota{Events: 2000}
		mine := w.client("mine")
		w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
			emit := func(durable bool) error {
				_, err := mine.Emit(t.Context(), &gantryv1.EmitRequest{Token: s.CallToken, Kind: "k", PayloadJson: []byte(`"` + strings.Repeat("x", 500) + `"`), Durable: durable})
				return err
			}
			for i := range 4 {
				if err := emit(true); (err == nil) != (i < 2) || err != nil && code(err) != codes.ResourceExhausted {
					t.Errorf("event %d: %v", i, err)
				}
			}
			if err := emit(false); err != nil {
				t.Errorf("one that is not kept: %v", err)
			}
		})
		if got := strings.Join(w.exceeded, ","); got != "mine events" {
			t.Errorf("the user reads %q", got)
		}
	})
}

// What was removed, or replaced by less, makes room again; a thread's goes with the thread, and what is no thread keeps nothing.
func TestRoomForState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quota = service.Quota{State: 3000}
	mine := w.client("mine")
	put := func(key string, n int, thread string) codes.Code {
		r := &gantryv1.PutStateRequest{Key: key, Value: make([]byte, n)}
		if thread != "" {
			r.Scope, r.ThreadId = gantryv1.StateScope_STATE_SCOPE_THREAD, thread
		}
		_, err := mine.PutState(t.Context(), r)
		return code(err)
	}
	for i, step := range []struct {
		key    string
		n      int
		thread string
		want   codes.Code
	}{
		{"a", 2000, "", codes.OK}, {"b", 2000, "", codes.ResourceExhausted}, {"a", 2900, "", codes.OK}, {"a", 3100, "", codes.ResourceExhausted},
		{"a", 1000, "", codes.OK}, {"b", 1900, string(w.thread), codes.OK}, {"c", 900, "", codes.ResourceExhausted}, {"a", 0, "", codes.OK}, {"c", 900, "", codes.OK},
		{"x", 1, "01900000-0000-7000-8000-000000000000", codes.NotFound},
	} {
		if got := put(step.key, step.n, step.thread); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
