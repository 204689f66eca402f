package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/golang-jwt/jwt/v5"
	"github.com/hashicorp/go-hclog"
)

// AuthMode is how the clients of a websocket authenticate.
type AuthMode int

// The modes of [Auth].
const (
	AuthUnspecified AuthMode = iota // a server that listens on TCP refuses to start
	CapabilityToken                 // the client knows a token
	SignedBearer                    // the client has a JSON web token, signed with a shared secret (HS256)
	AuthNone                        // every local process may connect; refused if other machines can reach the address
)

// DefaultClockSkew is the default of --ws-max-clock-skew-seconds.
const DefaultClockSkew = 30 * time.Second

// minSecret is the length in bytes of the shortest shared secret, after trimming: that of the hash function, as RFC 7518 §3.2 requires.
const minSecret = 32

// maxSecretFile is the largest file that is read as a token or a secret.
const maxSecretFile = 64 << 10

// Auth is how clients that connect over TCP authenticate. A unix socket needs none: the kernel reports its clients' user.
type Auth struct {
	Mode AuthMode

	// Of CapabilityToken: the file with the token, without surrounding white space, or the token's SHA-256 if TokenFile is "".
	TokenFile   string
	TokenSHA256 [sha256.Size]byte

	// Of SignedBearer: the file with the secret, which has at least 32 bytes without surrounding white space; the required issuer and
	// audience, "": any; and the tolerated difference between clocks.
	SecretFile string
	Issuer     string
	Audience   string
	ClockSkew  time.Duration
}

// verifier decides about the token of a client. Its error is the response to the client, a [refusal].
type verifier interface {
	verify(token string, now time.Time) error
}

// refusal is why a client is not authenticated. The texts are those of codex's app server, whose clients may show or match them.
type refusal string

const (
	noToken        refusal = "missing websocket bearer token"
	badHeader      refusal = "invalid authorization header"
	wrongToken     refusal = "invalid websocket bearer token"
	badJWT         refusal = "invalid websocket jwt"
	expiredJWT     refusal = "expired websocket jwt"
	earlyJWT       refusal = "websocket jwt is not valid yet"
	wrongIssuerJWT refusal = "websocket jwt issuer mismatch"
	wrongAudience  refusal = "websocket jwt audience mismatch"
)

// Error implements error.
func (r refusal) Error() string { return string(r) }

// load reads the files of a and returns what verifies clients; nil: every client is accepted.
func (a Auth) load(log hclog.Logger) (verifier, error) {
	switch a.Mode {
	case CapabilityToken:
		if a.TokenFile == "" {
			return capability(a.TokenSHA256), nil
		}
		token, err := readSecret(a.TokenFile, log)
		if err != nil {
			return nil, fmt.Errorf("websocket token: %w", err)
		}
		if len(token) == 0 {
			return nil, hint.New(fmt.Sprintf("websocket token: %s is empty", a.TokenFile), newSecret(a.TokenFile))
		}
		return capability(sha256.Sum256(token)), nil
	case SignedBearer:
		secret, err := readSecret(a.SecretFile, log)
		if err != nil {
			return nil, fmt.Errorf("websocket shared secret: %w", err)
		}
		if len(secret) < minSecret {
			return nil, hint.New(fmt.Sprintf("websocket shared secret: %s has %d bytes without surrounding white space, less than %d",
				a.SecretFile, len(secret), minSecret), newSecret(a.SecretFile))
		}
		return &signed{
			parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()),
			secret: secret, issuer: a.Issuer, audience: a.Audience, skew: int64(a.ClockSkew / time.Second),
		}, nil
	}
	return nil, nil
}

// newSecret is the command that writes a token or secret to a file.
func newSecret(path string) string {
	return fmt.Sprintf("write a random one to it, for example with: (umask 077; openssl rand -hex 32 > %s)", path)
}

// readSecret returns the content of a file without surrounding white space.
func readSecret(path string, log hclog.Logger) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.With(err, newSecret(path))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSecretFile {
		return nil, hint.New(fmt.Sprintf("%s is larger than %d KiB", path, maxSecretFile>>10), "specify a file that contains nothing but the secret")
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		log.Warn("a secret is readable by other users", "path", path, "mode", info.Mode().Perm())
	}
	return bytes.TrimSpace(b), nil
}

// bearer returns the token in the header of a request.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", noToken
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", badHeader
	}
	return token, nil
}

// capability is the SHA-256 of the token that clients know.
type capability [sha256.Size]byte

func (c capability) verify(token string, _ time.Time) error {
	// Digests have the same length and reveal nothing by the position of their first difference.
	if got := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(got[:], c[:]) != 1 {
		return wrongToken
	}
	return nil
}

// signed verifies JSON web tokens.
type signed struct {
	parser           *jwt.Parser
	secret           []byte
	issuer, audience string
	skew             int64 // seconds
}

// verify checks the claims itself: the library's validator does not distinguish a missing issuer from a missing expiry, and reports
// all failures at once.
func (s *signed) verify(token string, now time.Time) error {
	var c jwt.RegisteredClaims
	_, err := s.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return s.secret, nil })
	at := now.Unix()
	switch {
	case err != nil || c.ExpiresAt == nil:
		return badJWT
	case at > c.ExpiresAt.Unix()+s.skew:
		return expiredJWT
	case c.NotBefore != nil && at < c.NotBefore.Unix()-s.skew:
		return earlyJWT
	case s.issuer != "" && c.Issuer != s.issuer:
		return wrongIssuerJWT
	case s.audience != "" && !slices.Contains(c.Audience, s.audience):
		return wrongAudience
	}
	return nil
}

// authorize checks the credentials of a request to connect.
func authorize(v verifier, h http.Header, now time.Time) error {
	if v == nil {
		return nil
	}
	token, err := bearer(h)
	if err != nil {
		return err
	}
	return v.verify(token, now)
}

var errNoAuth = errors.New("clients of a websocket must authenticate")

// permits returns an error if a server may not listen on an address with this authentication.
func (a Auth) permits(addr Address) error {
	if addr.Kind != TCP {
		return nil
	}
	const token = "add --ws-auth capability-token --ws-token-file PATH"
	loopback := addr.TCP.Addr().IsLoopback()
	switch {
	case a.Mode == AuthUnspecified && loopback:
		return hint.With(fmt.Errorf("listen on %s: %w", addr, errNoAuth), token+"; or --no-auth, which lets every local user and process connect")
	case a.Mode == AuthUnspecified:
		return hint.With(fmt.Errorf("listen on %s: %w", addr, errNoAuth), token)
	case a.Mode == AuthNone && !loopback:
		return hint.New(fmt.Sprintf("listen on %s without authentication: other machines can reach that address", addr),
			token+", or listen on 127.0.0.1")
	}
	return nil
}
