package service

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc"
)

// attach copies the input and output of a process until the process has ended and its output was read.
func attach(stream grpc.BidiStreamingServer[gantryv1.AttachRequest, gantryv1.AttachResponse], p *launch.Process, first *gantryv1.AttachRequest) error {
	ctx, cancel := context.WithCancel(stream.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	stdin := make(chan launch.Input)
	work.Go(func() { // ends with the client's side of the stream, at the latest when the rpc returns
		for m := first; ; {
			if len(m.GetStdin()) > 0 || m.GetCloseStdin() {
				select {
				case stdin <- launch.Input{Data: m.GetStdin(), Close: m.GetCloseStdin()}:
				case <-ctx.Done():
					return
				}
			}
			next := make(chan *gantryv1.AttachRequest, 1)
			go func() { // owned by gRPC: Recv returns when the rpc has ended
				defer close(next)
				if m, err := stream.Recv(); err == nil {
					next <- m
				}
			}()
			select {
			case m = <-next:
				if m == nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	exit, err := p.Attach(ctx, stdin, func(o launch.Output) error {
		m := &gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Stdout{Stdout: o.Data}}
		if o.Stderr {
			m.Output = &gantryv1.AttachResponse_Stderr{Stderr: o.Data}
		}
		return stream.Send(m)
	})
	if err != nil {
		return statusOf(err)
	}
	return stream.Send(&gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Exited{Exited: exitToProto(exit)}})
}
