package tool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestEventsOfACall(t *testing.T) {
	command := &contract.CommandItem{Command: "make"}
	for _, tc := range []struct {
		name string
		run  func(c *tool.Call) (*tool.Result, error)
		want string
	}{
		{"only a result", func(*tool.Call) (*tool.Result, error) { return tool.Text("fine"), nil }, `started | result fine`},
		{"no result", func(*tool.Call) (*tool.Result, error) { return nil, nil }, `started | result `},
		{"error", func(*tool.Call) (*tool.Result, error) { return nil, errors.New("no such city") }, `started | result no such city (error)`},
		{"errorf", func(*tool.Call) (*tool.Result, error) { return tool.Errorf("%d of %d", 1, 2), nil }, `started | result 1 of 2 (error)`},
		{"error beside a result", func(*tool.Call) (*tool.Result, error) { return tool.Text("lost"), errors.New("bad") }, `started | result bad (error)`},
		{"denied start", func(*tool.Call) (*tool.Result, error) {
			return nil, fmt.Errorf("run: %w", &process.StartError{Argv: []string{"rm"}, Message: "forbidden", Denied: true})
		}, `started | result run: start "rm": forbidden (error) (denied)`},
		{"panic", func(*tool.Call) (*tool.Result, error) { panic("boom") }, `started | result tool try crashed: boom (error)`},
		{"nil pointer", func(*tool.Call) (*tool.Result, error) {
			var r *tool.Result
			r.IsError = true
			return r, nil
		}, `started | result tool try crashed: runtime error: invalid memory address or nil pointer dereference (error)`},
		{"goroutine ended", func(*tool.Call) (*tool.Result, error) { runtime.Goexit(); return nil, nil },
			`started | result tool try ended without a result (error)`},
		{"item", func(c *tool.Call) (*tool.Result, error) { return tool.Text(""), c.Started(command) }, `started make | result `},
		{"item twice", func(c *tool.Call) (*tool.Result, error) {
			return tool.Text(""), errors.Join(c.Started(command), c.Started(&contract.CommandItem{Command: "ls"}))
		}, `started make | item ls | result `},
		{"output before the item", func(c *tool.Call) (*tool.Result, error) {
			return tool.Text(""), errors.Join(c.Output([]byte("a")), c.Started(command))
		}, `started | output@0 "a" | item make | result `},
		{"started without an item, late", func(c *tool.Call) (*tool.Result, error) {
			return tool.Text(""), errors.Join(c.Note("n"), c.Started(nil))
		}, `started | note n | result `},
		{"everything in order", func(c *tool.Call) (*tool.Result, error) {
			return tool.Text("end"), errors.Join(c.Started(command), c.Output([]byte("one ")), c.Output([]byte("two")),
				c.Progress("half", 1, 2), c.Output([]byte("three")), c.Note("note"), c.Update(&contract.OtherItem{Title: "new"}),
				c.Output([]byte("four")))
		}, `started make | output@0 "one two" | progress half 1/2 | output@7 "three" | note note | item new | output@12 "four" | result end`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
					return tc.run(c)
				})}, nil, "{}")
				_, all := p.run(t, &gantryv1.CallStart{Tool: "try"})
				if got := shape(all); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		})
	}
}

func TestOutputIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			for range 3 { // within the time that output waits for more
				c.Output([]byte("a"))
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			c.Output([]byte("b"))
			time.Sleep(100 * time.Millisecond)
			c.Output([]byte("c")) // goes out before the result without waiting
			return tool.Text(""), nil
		})}, nil, "{}")
		_, all := p.run(t, &gantryv1.CallStart{Tool: "try"})
		if got, want := shape(all), `started | output@0 "aaa" | output@3 "b" | output@4 "c" | result `; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestLargeOutputDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			c.Output(bytes.Repeat([]byte("x"), 16<<10))
			<-release
			return tool.Text(""), nil
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "try"})
		before := time.Now()
		for range 3 { // started and two deltas
			if _, err := c.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(before); waited > 0 {
			t.Errorf("waited %v", waited)
		}
		close(release)
		if _, err := c.Recv(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCallIsAnnouncedWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			<-release
			return tool.Text(""), c.Started(&contract.CommandItem{Command: "late"})
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "try"})
		before := time.Now()
		first, err := c.Recv()
		if err != nil || first.GetStarted() == nil || time.Since(before) > 20*time.Millisecond {
			t.Errorf("first %v after %v, %v", first, time.Since(before), err)
		}
		close(release)
		second, err := c.Recv()
		if err != nil || second.GetItem().GetCommand().GetCommand() != "late" {
			t.Errorf("second %v, %v", second, err)
		}
		if m, err := c.Recv(); err != nil || m.GetResult() == nil {
			t.Errorf("third %v, %v", m, err)
		}
	})
}

func TestCharactersAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			euro := []byte("€")
			for _, b := range euro { // each byte on its own, with time to be sent
				c.Output([]byte{b})
				time.Sleep(time.Second)
			}
			c.Output([]byte("a\xffb"))
			c.Output(euro[:2]) // never completed
			return tool.Text(""), nil
		})}, nil, "{}")
		_, all := p.run(t, &gantryv1.CallStart{Tool: "try"})
		want := `started | output@0 "€" | output@3 "a" | output@4 "\xff" | output@5 "b" | output@6 "\xe2" | output@7 "\x82" | result `
		if got := shape(all); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestOutputCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped int64
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			w := c.OutputWriter()
			for range 10 {
				if n, err := w.Write([]byte("0123456789")); n != 10 || err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			}
			dropped = c.Dropped()
			return tool.Text(""), nil
		})}, nil, "{}")
		_, all := p.run(t, &gantryv1.CallStart{Tool: "try", Caps: &gantryv1.CallCaps{MaxOutputBytes: 25}})
		want := `started | output@0 "0123456789012345678901234" | note 75 bytes of output are not shown, because the call has reached its output limit | result `
		if got := shape(all); got != want || dropped != 75 {
			t.Errorf("got  %s\nwant %s\ndropped %d", got, want, dropped)
		}
	})
}

// A program that prints a binary makes one delta per byte; only so many are sent.
func TestDeltasAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			return tool.Text(""), c.Output(bytes.Repeat([]byte{0xff}, 10_500))
		})}, nil, "{}")
		_, all := p.run(t, &gantryv1.CallStart{Tool: "try"})
		if n := len(all); n != 10_003 || !strings.HasPrefix(all[n-2].GetNote().GetText(), "500 bytes") {
			t.Errorf("%d events, the last but one %v", n, all[len(all)-2])
		}
	})
}

// The host that does not read makes the handler wait; nothing piles up without a bound.
func TestSlowHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		written := 0
		const chunks, size = 200, 16 << 10
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			for range chunks {
				if err := c.Output(bytes.Repeat([]byte("x"), size)); err != nil {
					return nil, err
				}
				mu.Lock()
				written += size
				mu.Unlock()
			}
			return tool.Text(""), nil
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "try"})
		synctest.Wait()
		mu.Lock()
		if written > 512<<10 {
			t.Errorf("%d bytes were taken although nobody reads", written)
		}
		mu.Unlock()
		all, err := c.rest()
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, m := range all {
			if d := m.GetOutput(); d != nil {
				if d.GetOffset() != int64(total) || len(d.GetData()) > 8192 {
					t.Errorf("delta of %d bytes at %d, want offset %d", len(d.GetData()), d.GetOffset(), total)
				}
				total += len(d.GetData())
			}
		}
		if total != chunks*size {
			t.Errorf("%d bytes arrived, want %d", total, chunks*size)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Run("the handler's own result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				<-ctx.Done()
				why, ok := errors.AsType[*tool.Cancelled](context.Cause(ctx))
				if !ok || why.Grace != 3*time.Second || c.Soft() != ctx || c.Hard().Err() != nil {
					t.Errorf("cause %v, hard %v", context.Cause(ctx), c.Hard().Err())
				}
				c.Output([]byte("last words"))
				return tool.Text("stopped: " + why.Reason), nil
			})}, nil, "{}")
			c := p.start(t, &gantryv1.CallStart{Tool: "try"})
			c.cancel("interrupted", 3000)
			all, err := c.rest()
			if got, want := shape(all), `started | output@0 "last words" | result stopped: interrupted`; got != want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	})
	t.Run("an error is an abort", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})}, nil, "{}")
			c := p.start(t, &gantryv1.CallStart{Tool: "try"})
			c.cancel("deadline", 0)
			all, err := c.rest()
			if got, want := shape(all), `started | result call cancelled: deadline (error) (aborted)`; got != want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	})
	t.Run("a handler that does not stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			late := make(chan error, 2)
			p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				<-release
				late <- c.Output([]byte("too late"))
				late <- c.Note("too late")
				return tool.Text("too late"), nil
			})}, nil, "{}")
			c := p.start(t, &gantryv1.CallStart{Tool: "try"})
			c.cancel("interrupted", 2000)
			before := time.Now()
			all, err := c.rest()
			if got, want := shape(all), `started | result aborted: the tool did not stop within 2s (error) (aborted)`; got != want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
			if took := time.Since(before); took >= 2*time.Second {
				t.Errorf("the result came after %v, the grace was over", took)
			}
			// It still counts as running: a drain waits for it.
			if r, err := p.Drain(t.Context(), &gantryv1.DrainRequest{DeadlineMs: 10}); err != nil || r.GetStillRunning() != 1 {
				t.Errorf("drain %v, %v", r, err)
			}
			close(release)
			for range 2 {
				if err := <-late; !errors.Is(err, tool.ErrEnded) {
					t.Errorf("late error %v, want %v", err, tool.ErrEnded)
				}
			}
		})
	})
	t.Run("a shorter grace counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			p := configured(t, tool.Plugin{Tools: one("try", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				<-release
				return nil, nil
			})}, nil, "{}")
			c := p.start(t, &gantryv1.CallStart{Tool: "try"})
			c.cancel("interrupted", 60_000)
			c.cancel("shutdown", 1_000)
			c.cancel("interrupted", 50_000)
			before := time.Now()
			if _, err := c.rest(); err != nil || time.Since(before) > time.Second {
				t.Errorf("after %v, %v", time.Since(before), err)
			}
			close(release)
		})
	})
	t.Run("the hard kill", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				<-ctx.Done()
				<-c.Hard().Done()
				ended <- c.Output([]byte("x"))
				return nil, nil
			})}, nil, "{}")
			ctx, kill := context.WithCancel(t.Context())
			c := p.startCtx(t, ctx, &gantryv1.CallStart{Tool: "try"})
			if _, err := c.Recv(); err != nil {
				t.Fatal(err)
			}
			kill()
			if _, err := c.rest(); status.Code(err) != codes.Canceled {
				t.Errorf("error %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("output of a dead call was accepted")
			}
		})
	})
}

func TestPauseStopsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			timer := c.Clock().NewTimer(30 * time.Second)
			defer timer.Stop()
			<-timer.C
			c.Output(fmt.Appendf(nil, "%v", c.Clock().Elapsed()))
			<-ctx.Done()
			return tool.Text(fmt.Sprintf("%v %v", context.Cause(ctx), c.Clock().Elapsed())), nil
		})}, nil, "{}")
		before := time.Now()
		c := p.start(t, &gantryv1.CallStart{Tool: "try", Caps: &gantryv1.CallCaps{DeadlineMs: 60_000}})
		time.Sleep(10 * time.Second)
		for range 2 { // saying it twice changes nothing
			c.control(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Pause{Pause: &gantryv1.CallPause{}}})
		}
		time.Sleep(time.Hour)
		for range 2 {
			c.control(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Resume{Resume: &gantryv1.CallResume{}}})
		}
		all, err := c.rest()
		if got, want := shape(all), `started | output@0 "30s" | result call cancelled: deadline 1m0s`; got != want || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
		if took := time.Since(before); took != time.Hour+time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestPluginsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Limits: contract.Limits{CallMS: 5000}, Tools: one("try", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})}, nil, "{}")
		before := time.Now()
		r, _ := p.run(t, &gantryv1.CallStart{Tool: "try"})
		if !r.GetAborted() || time.Since(before) != 5*time.Second {
			t.Errorf("result %v after %v", r, time.Since(before))
		}
	})
}

func TestGrantAndUnknownControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready, resume := make(chan struct{}), make(chan struct{})
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			close(ready)
			<-resume
			return tool.Text(c.Grant().SandboxMode), nil
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "try", Grant: &gantryv1.GrantFacts{SandboxMode: "read-only"}})
		<-ready
		c.control(&gantryv1.CallRequest{}) // as a control of an unknown kind is received
		synctest.Wait()
		close(resume)
		all, err := c.rest()
		if got, want := shape(all), `started | result read-only`; got != want || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestCallFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			return tool.Text(fmt.Sprint(c.ThreadID(), c.TurnID(), c.ID(), c.Tool(), c.Cwd(), c.Attempt(), c.AssessDigest(),
				c.Parents(), c.ModelTraits(), c.Caps().MaxModelTokens, c.Env().Label, c.Env().DataDir, c.Env().Generation, c.Thread().ID())), nil
		}, tool.Namespace("ns"))}, nil, "{}")
		r, _ := p.run(t, &gantryv1.CallStart{
			ThreadId: "t", TurnId: "u", CallId: "c", Tool: "try", Namespace: "ns", Cwd: "/w", AssessDigest: "d", Attempt: 2,
			Parents: []string{"p"}, ModelTraits: []string{"images"}, Caps: &gantryv1.CallCaps{MaxModelTokens: 7},
		})
		if got, want := resultShape(r), "tuctry/w2d[p] [images] 7test/data1t"; strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestFirstMessageMustBeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{}, nil, "{}")
		stream, err := p.Call(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := call{stream, t}
		c.cancel("interrupted", 0)
		if _, err := c.rest(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("error %v", err)
		}
	})
}

// begin makes another call on the stream of a call.
func (c call) begin(id, tool string) {
	c.t.Helper()
	c.control(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: &gantryv1.CallStart{
		ThreadId: "thread-1", TurnId: "turn-1", CallId: id, Cwd: "/work", Tool: tool, Input: arguments("{}"), KeepStream: true,
	}}})
}

// result receives up to the result.
func (c call) result() []*gantryv1.CallResponse {
	c.t.Helper()
	var all []*gantryv1.CallResponse
	for {
		m, err := c.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if all = append(all, m); m.GetResult() != nil {
			checkOrder(c.t, all)
			return all
		}
	}
}

func TestCallsOnOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: append(
			one("id", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) { return tool.Text(c.ID()), nil }),
			one("wait", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				if err := c.Started(&contract.OtherItem{Title: "waits"}); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return tool.Text(context.Cause(ctx).Error()), nil
			})...,
		)}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "id", KeepStream: true})
		first := c.result()
		if got := shape(first); got != "started | result call-1" || !first[0].GetStarted().GetKeepStream() {
			t.Errorf("the first call: %s, %v", got, first[0])
		}
		c.cancel("interrupted", 1000) // too late for the first call, and not meant for the second
		c.begin("call-2", "id")
		if got := shape(c.result()); got != "started | result call-2" {
			t.Errorf("the second call: %s", got)
		}
		c.begin("call-3", "wait")
		if m, err := c.Recv(); err != nil || !m.GetStarted().GetKeepStream() {
			t.Fatal(m, err)
		}
		c.cancel("interrupted", 1000)
		if m, err := c.Recv(); err != nil || resultShape(m.GetResult()) != "call cancelled: interrupted" {
			t.Errorf("the cancelled call: %v, %v", m, err)
		}
		if err := c.CloseSend(); err != nil {
			t.Error(err)
		}
		if m, err := c.Recv(); err != io.EOF {
			t.Errorf("after the last call: %v, %v", m, err)
		}
	})
}

// A stream that waits for another call does not keep the plugin from ending.
func TestCloseEndsWaitingStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("id", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			return tool.Text(c.ID()), nil
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "id", KeepStream: true})
		c.result()
		if err := p.server.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if m, err := c.Recv(); err != io.EOF {
			t.Errorf("after the end: %v, %v", m, err)
		}
	})
}

// A host that does not keep streams may wait for their ends.
func TestStreamEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("id", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			return tool.Text(c.ID()), nil
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "id"})
		c.begin("call-2", "id") // which is not answered
		all, err := c.rest()
		if err != nil || shape(all) != "started | result call-1" || all[0].GetStarted().GetKeepStream() {
			t.Errorf("%s, %v", shape(all), err)
		}
	})
}
