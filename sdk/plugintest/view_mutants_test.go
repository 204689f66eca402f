//go:build unix

package plugintest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func viewMutants() []mutant {
	view := func(do func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error) func(*reference) {
		return stream(onStream(gantryv1.ToolService_View_FullMethodName, do))
	}
	// sends breaks what a view sends.
	sends := func(do func(m *gantryv1.ViewResponse, send func(any) error) error) func(*reference) {
		return view(func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			return next(&tapped{ServerStream: ss, send: func(m any, send func(any) error) error { return do(m.(*gantryv1.ViewResponse), send) }})
		})
	}
	frame := func(change func(f *gantryv1.ViewFrame)) func(*reference) {
		return sends(func(m *gantryv1.ViewResponse, send func(any) error) error {
			if f := m.GetFrame(); f != nil {
				change(f)
			}
			return send(m)
		})
	}
	return []mutant{
		{check: "session.view", how: "does not wait", change: sends(func(m *gantryv1.ViewResponse, send func(any) error) error {
			if f := m.GetFrame(); f.GetNumber() == 1 {
				if err := send(m); err != nil {
					return err
				}
				for n := uint64(2); n < 4; n++ {
					again := &gantryv1.ViewFrame{Number: n, Output: &gantryv1.ViewOutput{Offset: int64(n) << 20}}
					if err := send(&gantryv1.ViewResponse{Event: &gantryv1.ViewResponse_Frame{Frame: again}}); err != nil {
						return err
					}
				}
				return nil
			}
			return send(m)
		})},
		{check: "session.view", how: "numbers", change: frame(func(f *gantryv1.ViewFrame) { f.Number *= 2 })},
		{check: "session.view", how: "repeats output", change: frame(func(f *gantryv1.ViewFrame) { f.Output.Offset = 0 })},
		{check: "session.view", how: "kind", change: frame(func(f *gantryv1.ViewFrame) { f.Picture, f.Output = &gantryv1.ViewPicture{}, nil })},
		{check: "session.view", how: "frames first", change: sends(func(m *gantryv1.ViewResponse, send func(any) error) error {
			if m.GetOpened() != nil {
				return nil
			}
			return send(m)
		})},
		{check: "session.view", how: "no kind", change: sends(func(m *gantryv1.ViewResponse, send func(any) error) error {
			if m.GetOpened() != nil {
				m.GetOpened().Kind = 0
			}
			return send(m)
		})},
		{check: "session.view", how: "unknown session", change: view(func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			if next(ss) != nil {
				return refused(codes.Internal)
			}
			return nil
		})},
		{check: "session.view", how: "ends", change: sends(func(m *gantryv1.ViewResponse, send func(any) error) error {
			if m.GetFrame() != nil {
				return refused(codes.Aborted)
			}
			return send(m)
		})},
		{check: "session.view", how: "does not close", change: view(func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			err := next(ss)
			if err == nil {
				<-ss.Context().Done()
			}
			return err
		})},
	}
}
