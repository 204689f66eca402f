// Package hostservice is the part of a plugin's access to the host's services that tool and provider plugins share.
//
// It owns: how a call fails if the host offers no services, reading artifacts, and stored secrets. It must not know: the API of either kind of
// plugin, or how a connection is made (sdk/wire).
//
// Start with [Client].
package hostservice

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrNone is the error of every call of a plugin to which the host offers no services.
var ErrNone = errors.New("the host offers no services to this plugin")

// Client returns c, or a client whose calls fail with [ErrNone] if c is nil.
func Client(c gantryv1.HostServiceClient) gantryv1.HostServiceClient {
	if c == nil {
		return gantryv1.NewHostServiceClient(noHost{})
	}
	return c
}

// noHost is a connection that is never established.
type noHost struct{}

// Invoke implements [grpc.ClientConnInterface].
func (noHost) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return ErrNone }

// NewStream implements [grpc.ClientConnInterface].
func (noHost) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, ErrNone
}

// Artifact returns the content of an artifact, unverified. It returns an error if the artifact does not exist. The caller closes
// the reader.
func Artifact(ctx context.Context, c gantryv1.HostServiceClient, sha256 string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.GetArtifact(ctx, &gantryv1.GetArtifactRequest{Sha256: sha256})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("get artifact %s: %w", sha256, err)
	}
	r := &artifactReader{stream: stream, cancel: cancel, sha256: sha256}
	b := bufio.NewReader(r)
	// The host reports a missing artifact with the first message.
	if _, err := b.Peek(1); err != nil && err != io.EOF {
		cancel()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{b, r}, nil
}

type artifactReader struct {
	stream grpc.ServerStreamingClient[gantryv1.GetArtifactResponse]
	cancel context.CancelFunc
	sha256 string
	rest   []byte // received and not yet read
}

func (r *artifactReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		msg, err := r.stream.Recv()
		if err == io.EOF {
			return 0, io.EOF
		}
		if err != nil {
			return 0, fmt.Errorf("get artifact %s: %w", r.sha256, err)
		}
		r.rest = msg.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *artifactReader) Close() error {
	r.cancel()
	return nil
}
