package wire_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/wire"
)

type fakeStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s fakeStream) Context() context.Context { return s.ctx }

func TestRequireToken(t *testing.T) {
	tests := []struct {
		name, token, method string
		given               []string
		want                codes.Code
	}{
		{"right", "abc", "/gantry.v1.PluginService/Describe", []string{"abc"}, codes.OK},
		{"none", "abc", "/gantry.v1.PluginService/Describe", nil, codes.Unauthenticated},
		{"wrong", "abc", "/gantry.v1.PluginService/Describe", []string{"abd"}, codes.Unauthenticated},
		{"longer", "abc", "/gantry.v1.PluginService/Describe", []string{"abcd"}, codes.Unauthenticated},
		{"two", "abc", "/gantry.v1.PluginService/Describe", []string{"abc", "abc"}, codes.Unauthenticated},
		{"no token is no password", "", "/gantry.v1.PluginService/Describe", []string{""}, codes.Unauthenticated},
		{"exempt service", "abc", "/grpc.health.v1.Health/Check", nil, codes.OK},
		{"exempt method", "abc", "/a.B/C", nil, codes.OK},
		{"not the exempt method", "abc", "/a.B/CD", nil, codes.Unauthenticated},
		{"not the exempt service", "abc", "/grpc.health.v1.Healthy/Check", nil, codes.Unauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			unary, stream := wire.RequireToken(tt.token, "/grpc.health.v1.Health/", "/a.B/C")
			ctx := t.Context()
			if tt.given != nil {
				ctx = metadata.NewIncomingContext(ctx, metadata.MD{wire.TokenKey: tt.given})
			}
			ran := 0
			_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: tt.method}, func(context.Context, any) (any, error) {
				ran++
				return nil, nil
			})
			if got := status.Code(err); got != tt.want {
				t.Errorf("unary = %v, want %v", err, tt.want)
			}
			err = stream(nil, fakeStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: tt.method}, func(any, grpc.ServerStream) error {
				ran++
				return nil
			})
			if got := status.Code(err); got != tt.want {
				t.Errorf("stream = %v, want %v", err, tt.want)
			}
			if want := map[codes.Code]int{codes.OK: 2}[tt.want]; ran != want {
				t.Errorf("handlers ran %d times, want %d", ran, want)
			}
		})
	}
}

func TestNewTokenIsLongAndNew(t *testing.T) {
	a, b := wire.NewToken(), wire.NewToken()
	if len(a) != 64 || a == b {
		t.Errorf("tokens %d and %d long, equal: %v", len(a), len(b), a == b)
	}
}
