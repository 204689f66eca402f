package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/internal/hostservice"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// ErrNoHost is returned by the methods of a [Host] that offers no services.
var ErrNoHost = hostservice.ErrNone

// maxArtifactBytes is the maximum size of an artifact that is read into memory. The limits of vendors for media are lower.
const maxArtifactBytes = 64 << 20

// Host gives a provider access to host services. It is safe for concurrent use.
type Host struct {
	conn      *grpc.ClientConn
	client    gantryv1.HostServiceClient
	constants sync.Map // handle → value of secrets that the host has declared constant
}

// newHost prepares the connection announced in Configure. If there is none, the methods of the host return [ErrNoHost].
func newHost(ctx context.Context, facts *gantryv1.HostFacts) (*Host, error) {
	if facts.GetServicesSocket() == "" {
		return &Host{}, nil
	}
	conn, err := wire.DialHost(ctx, facts.GetServicesSocket(), facts.GetServicesToken())
	if err != nil {
		return nil, err
	}
	return &Host{conn: conn, client: gantryv1.NewHostServiceClient(conn)}, nil
}

// services returns the client of the host's services. Without a host, its calls fail with [ErrNoHost].
func (h *Host) services() gantryv1.HostServiceClient { return hostservice.Client(h.client) }

func (h *Host) close() error {
	if h.conn == nil {
		return nil
	}
	return h.conn.Close()
}

// Artifact reads and verifies content by its SHA-256, in lower-case hex. It is meant for media that a request refers to.
func (h *Host) Artifact(ctx context.Context, digest string) ([]byte, error) {
	r, err := hostservice.Artifact(ctx, h.services(), digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxArtifactBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxArtifactBytes:
		return nil, fmt.Errorf("get artifact %s: larger than %d bytes", digest, maxArtifactBytes)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("get artifact %s: the content has a different digest", digest)
	}
	return b, nil
}

// State reads one of the plugin's own keys. found is false if it does not exist. It requires the capability "state".
func (h *Host) State(ctx context.Context, key string) (value []byte, found bool, err error) {
	res, err := h.services().GetState(ctx, &gantryv1.GetStateRequest{Scope: gantryv1.StateScope_STATE_SCOPE_PLUGIN, Key: key})
	if err != nil {
		return nil, false, fmt.Errorf("get state %q: %w", key, err)
	}
	return res.GetValue(), res.GetFound(), nil
}

// SetState writes one of the plugin's own keys; a nil value deletes it. It requires the capability "state".
func (h *Host) SetState(ctx context.Context, key string, value []byte) error {
	_, err := h.services().PutState(ctx, &gantryv1.PutStateRequest{
		Scope: gantryv1.StateScope_STATE_SCOPE_PLUGIN, Key: key, Value: value, Delete: value == nil,
	})
	if err != nil {
		return fmt.Errorf("put state %q: %w", key, err)
	}
	return nil
}
