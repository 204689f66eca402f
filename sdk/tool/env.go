package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/internal/hostservice"
	"github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Env is the environment of a configured plugin: information about itself and its host. It is immutable; Configure creates
// a new one.
type Env struct {
	Label             string // label of the user's block; several blocks can use the same binary
	DataDir, CacheDir string // private to this plugin; CacheDir may be emptied at any time
	Generation        uint64 // number of this process among those of the plugin, from 1
	HostVersion       string
	HostLimits        contract.Limits
	HostCapabilities  []string
	Logger            hclog.Logger
	Config            any // the pointer in Plugin.Config

	server      *Server
	client      gantryv1.HostServiceClient // nil: the host offers no services
	descriptors string
	egress      string // socket of the host's proxy; empty: there is none
}

// host returns the client of the host's services. Without a host, its calls fail with [hostservice.ErrNone].
func (e *Env) host() gantryv1.HostServiceClient { return hostservice.Client(e.client) }

// Client returns the generated client of the host's services, for anything that this package doesn't cover; nil if the host
// offers none.
func (e *Env) Client() gantryv1.HostServiceClient { return e.client }

// SetTools replaces the tools that the plugin offers, and notifies the host. sources are providers of tools with their own
// state, for example MCP servers; [Source] assigns a tool to one. The error names invalid tools; all others are offered, and
// the host warns users about the invalid ones.
func (e *Env) SetTools(tools []Tool, sources ...contract.Source) error {
	return e.server.tools.replace(tools, sources)
}

// Context returns a context that lasts as long as the plugin, for background work. Its cause is then [ErrShutdown].
func (e *Env) Context() context.Context { return e.server.closing }

// Thread returns a thread that the plugin knows and that has not ended.
func (e *Env) Thread(id string) (*Thread, bool) { return e.server.threads.find(id) }

// Declared prepares the process that a block of the configuration declares: a nested block whose struct embeds
// [configblock.Process]. name is the block's name, followed by a dot and its label if it has one, for example "server.github". It
// belongs to no call and can be started at any time after Configure has begun. When ctx ends, the process tree is killed; use
// [Env.Context] for one that lasts as long as the plugin. See [process.Broker.Declared] for what can be set and for errors. Needs the
// capability "spawn".
func (e *Env) Declared(ctx context.Context, name string) *process.Cmd {
	return e.broker("").Declared(ctx, name)
}

// Denials are what a declared process was denied, and what its block allows it.
type Denials struct {
	Hosts                  []string // with their ports, in the order of the first attempts; at most 32
	Network, WritableRoots []string // of the block: patterns of hosts, and absolute paths
}

// Denials returns what the last process under a declared name has tried to reach in vain. Unless its block names hosts, that is known only
// of a process with [process.Cmd.ReportDenials].
func (e *Env) Denials(ctx context.Context, name string) (Denials, error) {
	resp, err := e.host().Denials(ctx, &gantryv1.DenialsRequest{Declared: name})
	if err != nil {
		return Denials{}, fmt.Errorf("what the process %q was denied is unknown: %w", name, err)
	}
	return Denials{Hosts: resp.GetHosts(), Network: resp.GetNetwork(), WritableRoots: resp.GetWritableRoots()}, nil
}

func (e *Env) broker(token string) *process.Broker {
	return process.New(e.host(), token, e.descriptors)
}

func (e *Env) command(ctx context.Context, token string, argv []string) *process.Cmd {
	return e.broker(token).Command(ctx, argv...)
}

// artifactChunk is the size of the pieces in which an artifact is sent.
const artifactChunk = 256 << 10

// PutArtifact stores content in the host. It reads r to the end.
func (e *Env) PutArtifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error) {
	ctx, cancel := context.WithCancel(ctx) // cancels the RPC if r fails
	defer cancel()
	stream, err := e.host().PutArtifact(ctx)
	if err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", name, err)
	}
	req := &gantryv1.PutArtifactRequest{MediaType: mediaType, Name: name}
	buf := make([]byte, artifactChunk)
	for first := true; ; first = false {
		n, err := io.ReadFull(r, buf)
		if n > 0 || first {
			req.Data = buf[:n]
			if serr := stream.Send(req); serr != nil {
				break // CloseAndRecv returns the reason
			}
			req = &gantryv1.PutArtifactRequest{}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", name, err)
		}
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", name, err)
	}
	return convert.ArtifactRefFromProto(resp.GetArtifact()), nil
}

// GetArtifact returns the content of an artifact. Close it to stop reading early.
func (e *Env) GetArtifact(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	return hostservice.Artifact(ctx, e.host(), sha256)
}

func (e *Env) secret(ctx context.Context, handle string, renew bool) (string, error) {
	resp, err := e.host().Secret(ctx, &gantryv1.SecretRequest{Handle: handle, Renew: renew})
	if err != nil {
		return "", err
	}
	return resp.GetValue(), nil
}

func (e *Env) emit(ctx context.Context, token, kind string, payload any, durable bool) error {
	b, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("emit %q: %w", kind, err)
	}
	if _, err := e.host().Emit(ctx, &gantryv1.EmitRequest{Token: token, Kind: kind, PayloadJson: b, Durable: durable}); err != nil {
		return fmt.Errorf("emit %q: %w", kind, err)
	}
	return nil
}
