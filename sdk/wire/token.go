package wire

import (
	"context"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Token adds the token to the metadata of every call of a connection. It refuses connections that are neither encrypted nor
// use [PeerCredentials].
func Token(token string) credentials.PerRPCCredentials { return tokenCredentials(token) }

type tokenCredentials string

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (t tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{TokenKey: string(t)}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials].
func (t tokenCredentials) RequireTransportSecurity() bool { return true }

// String hides the token.
func (t tokenCredentials) String() string { return "token" }

// GoString hides the token.
func (t tokenCredentials) GoString() string { return "wire.Token(…)" }

// RequireToken returns interceptors that reject calls without the token with UNAUTHENTICATED. The comparison takes constant
// time. An empty token rejects all calls.
//
// Exempt contains full method names ("/pkg.Service/Method") or whole services ("/pkg.Service/").
func RequireToken(token string, exempt ...string) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	check := func(ctx context.Context, method string) error {
		for _, e := range exempt {
			if method == e || strings.HasSuffix(e, "/") && strings.HasPrefix(method, e) {
				return nil
			}
		}
		given := metadata.ValueFromIncomingContext(ctx, TokenKey)
		if token != "" && len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(token)) == 1 {
			return nil
		}
		return status.Errorf(codes.Unauthenticated, "the metadata key %s is missing or wrong", TokenKey)
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := check(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := check(ss.Context(), info.FullMethod); err != nil {
			return err
		}
		return next(srv, ss)
	}
	return unary, stream
}
