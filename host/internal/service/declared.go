package service

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/launch"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Declared is a process that a plugin's block declares.
type Declared struct {
	Argv  []string
	Cwd   string            // absolute
	Env   map[string]Secret // in addition to the environment of commands
	Grant launch.Grant
	// Network and WritableRoots are what the block names.
	Network, WritableRoots []string
}

// noHost is a pattern that matches no host that can exist (RFC 6761). A process that may reach only it has a proxy, and reaches nothing.
const noHost = "none.invalid"

// Denials implements the rpc.
func (s *server) Denials(_ context.Context, r *gantryv1.DenialsRequest) (*gantryv1.DenialsResponse, error) {
	if err := s.may(capSpawn); err != nil {
		return nil, err
	}
	d, err := s.Declared(s.id.Label, r.GetDeclared())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &gantryv1.DenialsResponse{Hosts: s.Denied(declaredOwner(s.id.Label, r.GetDeclared())), Network: d.Network, WritableRoots: d.WritableRoots}, nil
}

func declaredOwner(label, name string) launch.Owner {
	return launch.Owner{Plugin: label, Call: "declared " + name}
}

// spawnDeclared starts a process that the plugin's block declares. It belongs to the plugin's process and to no call.
func (s *server) spawnDeclared(ctx context.Context, r *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	if r.GetCallToken() != "" || len(r.GetArgv()) > 0 || r.GetCwd() != "" || len(r.GetEnv()) > 0 || len(r.GetUnset()) > 0 || r.GetSession() ||
		r.GetReadOnly() || r.GetKeep() != nil || r.GetNarrow() || len(r.GetFolders()) > 0 || r.GetQuietNetwork() || r.GetOwner() != 0 {
		return nil, status.Error(codes.InvalidArgument,
			"a declared process is started as the configuration says: only terminal, stdin, merge_stderr and limits can be set with `declared`")
	}
	spec, err := specOf(r)
	if err != nil {
		return nil, err
	}
	d, err := s.Declared(s.id.Label, r.GetDeclared())
	if err != nil {
		return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: err.Error(), Denied: true}}, nil
	}
	set := make(map[string]string, len(d.Env))
	for name, secret := range d.Env {
		if set[name], err = s.valueOf(ctx, secret, false); err != nil {
			return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: "variable " + name + ": " + err.Error()}}, nil
		}
	}
	if r.GetReportDenials() && !d.Grant.Network && !d.Grant.Proxied {
		d.Grant.Proxied, d.Grant.Hosts = true, []string{noHost}
	}
	spec.Argv, spec.Cwd, spec.Env, spec.Grant = d.Argv, d.Cwd, environment(s.Environment(), set, nil), d.Grant
	spec.Owner, spec.Holder = declaredOwner(s.id.Label, r.GetDeclared()), s.id.Generation
	p, resp, err := s.start(ctx, spec)
	if p == nil {
		return resp, err
	}
	s.Launcher.RunsOn(spec.Owner) // as a session after its call
	// If the plugin's process has ended meanwhile, the launcher was notified before it knew this process.
	if gone := s.may(capSpawn); gone != nil {
		s.Launcher.HolderEnded(s.id.Label, s.id.Generation)
		return nil, gone
	}
	return resp, nil
}
