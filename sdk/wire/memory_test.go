package wire

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Memory is given back once after the last RPC, and not while one runs or for streams that last.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int64
		r := &rest{free: func() { freed.Add(1) }}
		during := func(method string, d time.Duration) {
			t.Helper()
			_, err := r.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
				<-time.After(d)
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		expect := func(n int64, after time.Duration, when string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if got := freed.Load(); got != n {
				t.Fatalf("%s: given back %d times, want %d", when, got, n)
			}
		}
		during(grpc_health_v1.Health_Check_FullMethodName, time.Second)
		during(gantryv1.ToolService_Watch_FullMethodName, time.Second)
		expect(0, time.Hour, "no call yet")
		during(gantryv1.ToolService_Call_FullMethodName, time.Hour)
		expect(0, restTime-time.Second, "a moment after a call")
		during(gantryv1.ToolService_Call_FullMethodName, time.Hour)
		expect(0, restTime-time.Second, "a moment after the next call")
		expect(1, time.Second, "at rest")
		expect(1, time.Hour, "still at rest")
		call := &grpc.StreamServerInfo{FullMethod: gantryv1.ToolService_Call_FullMethodName}
		start := &gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: &gantryv1.CallStart{}}}
		err := r.stream(nil, messages{}, call, func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(start); err != nil {
				return err
			}
			during(gantryv1.ToolService_Assess_FullMethodName, time.Second)
			expect(1, time.Hour, "in a call, after another one")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(2, restTime, "at rest again")
		err = r.stream(nil, messages{}, call, func(_ any, s grpc.ServerStream) error {
			for n := range int64(2) {
				if err := s.RecvMsg(start); err != nil {
					return err
				}
				expect(2+n, time.Hour, "in a call")
				if err := s.SendMsg(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: &gantryv1.CallResult{}}}); err != nil {
					return err
				}
				expect(3+n, restTime, "after a call, on a stream that is kept")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(4, time.Hour, "after the end of a stream that was kept")
		during(gantryv1.ToolService_Call_FullMethodName, time.Second)
		r.stop()
		expect(4, time.Hour, "after the end")
	})
}

// messages is a stream that takes and has all messages.
type messages struct{ grpc.ServerStream }

func (messages) RecvMsg(any) error { return nil }
func (messages) SendMsg(any) error { return nil }
