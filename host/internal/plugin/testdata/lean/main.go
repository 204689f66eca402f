// Command lean is the smallest plugin there can be, for benchmarks.
package main

import (
	"context"
	"os"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

type service struct {
	gantryv1.UnimplementedPluginServiceServer
}

func manifest() *contract.Manifest {
	return &contract.Manifest{Name: "lean", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{1}}
}

func (service) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	return &gantryv1.DescribeResponse{Manifest: convert.ManifestToProto(manifest())}, nil
}

func (service) Configure(context.Context, *gantryv1.ConfigureRequest) (*gantryv1.ConfigureResponse, error) {
	return &gantryv1.ConfigureResponse{}, nil
}

func (service) Command(_ context.Context, r *gantryv1.CommandRequest) (*gantryv1.CommandResponse, error) {
	return &gantryv1.CommandResponse{OutputJson: r.InputJson}, nil
}

func (service) Drain(context.Context, *gantryv1.DrainRequest) (*gantryv1.DrainResponse, error) {
	return &gantryv1.DrainResponse{}, nil
}

func main() {
	os.Exit(wire.Serve(context.Background(), wire.ServeConfig{
		Manifest: manifest,
		Register: func(s *grpc.Server) { gantryv1.RegisterPluginServiceServer(s, service{}) },
	}))
}
