package service

import (
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/launch"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxFolders limits the folders of one process.
const maxFolders = 32

// narrow changes what a process starts with to what its request asks for, which is never more than the grant in spec. own are the plugin's
// folders, and mode is that of its own network settings, which hold in every sandbox mode; empty: it has none.
func narrow(r *gantryv1.SpawnRequest, spec *launch.Spec, own []string, mode string) error {
	g := spec.Grant
	switch {
	case !r.GetNarrow() && len(r.GetFolders()) > 0:
		return status.Error(codes.InvalidArgument, "`folders` are for a process with `narrow`")
	case !r.GetNarrow():
		spec.Grant.Quiet = r.GetQuietNetwork()
		return nil
	case mode == schema.NetworkProxy && len(g.Hosts) == 0: // the rules say so
	case g.Network && mode != schema.NetworkNone:
		g.Hosts = []string{launch.AnyHost}
	case !g.Proxied || mode == schema.NetworkNone:
		g.Hosts = []string{noHost}
	}
	if err := checkFolders(r.GetFolders(), own); err != nil {
		return err
	}
	spec.Grant = g.Narrowed(r.GetFolders())
	spec.Grant.Quiet = r.GetQuietNetwork()
	if r.GetCwd() == "" {
		spec.Cwd = "/tmp"
	}
	return nil
}

// checkFolders returns an error unless all folders are below the plugin's own.
func checkFolders(folders, own []string) error {
	if len(folders) > maxFolders {
		return status.Errorf(codes.InvalidArgument, "a process can have at most %d folders", maxFolders)
	}
	for _, f := range folders {
		if !filepath.IsAbs(f) || filepath.Clean(f) != f || !slices.ContainsFunc(own, func(o string) bool {
			rel, err := filepath.Rel(o, f)
			return err == nil && rel != "." && filepath.IsLocal(rel)
		}) {
			return status.Errorf(codes.InvalidArgument, "%q is not below the plugin's data or cache folder", f)
		}
	}
	return nil
}
