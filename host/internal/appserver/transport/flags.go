package transport

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/spf13/pflag"
)

// Flags are the command line's flags of a server's address and authentication. Names and meaning are those of codex's app server,
// except for --no-auth.
type Flags struct {
	listen                       string
	stdio                        bool
	auth                         string
	tokenFile, tokenSHA256       string
	secretFile, issuer, audience string
	skew                         uint32
	noAuth                       bool

	set *pflag.FlagSet
}

// The flags by name.
const (
	flagListen      = "listen"
	flagStdio       = "stdio"
	flagAuth        = "ws-auth"
	flagTokenFile   = "ws-token-file"
	flagTokenSHA256 = "ws-token-sha256"
	flagSecretFile  = "ws-shared-secret-file"
	flagIssuer      = "ws-issuer"
	flagAudience    = "ws-audience"
	flagSkew        = "ws-max-clock-skew-seconds"
	flagNoAuth      = "no-auth"
)

// Values of --ws-auth.
const (
	capabilityToken = "capability-token"
	signedBearer    = "signed-bearer-token"
)

// Register adds the flags to a set.
func (f *Flags) Register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.listen, flagListen, DefaultURL, "where clients connect: stdio://, unix://, unix://`PATH`, ws://IP:PORT, fd://N or off")
	set.BoolVar(&f.stdio, flagStdio, false, "same as --listen stdio://")
	set.StringVar(&f.auth, flagAuth, "", "how clients of ws:// authenticate: `MODE` is capability-token or signed-bearer-token")
	set.StringVar(&f.tokenFile, flagTokenFile, "", "read the capability token from `PATH`")
	set.StringVar(&f.tokenSHA256, flagTokenSHA256, "", "the SHA-256 of the capability token, in `HEX`")
	set.StringVar(&f.secretFile, flagSecretFile, "", "read the secret that signs bearer tokens (HS256) from `PATH`")
	set.StringVar(&f.issuer, flagIssuer, "", "require this `ISSUER` of bearer tokens")
	set.StringVar(&f.audience, flagAudience, "", "require this `AUDIENCE` of bearer tokens")
	set.Uint32Var(&f.skew, flagSkew, uint32(DefaultClockSkew/time.Second), "tolerate this difference between clocks, in `SECONDS`")
	set.BoolVar(&f.noAuth, flagNoAuth, false, "let every local process connect to ws:// on a loopback address")
}

// Parse returns the address and the authentication that the flags specify. It reads no files. Errors have a next step and are usage
// errors.
func (f *Flags) Parse() (Address, Auth, error) {
	addr, err := f.address()
	if err != nil {
		return Address{}, Auth{}, err
	}
	auth, err := f.authentication()
	if err != nil {
		return Address{}, Auth{}, err
	}
	if auth.Mode != AuthUnspecified && addr.Kind != TCP {
		name := flagAuth
		if auth.Mode == AuthNone {
			name = flagNoAuth
		}
		return Address{}, Auth{}, hint.New(fmt.Sprintf("--%s has no effect on %s", name, addr), "remove it, or use --listen ws://IP:PORT")
	}
	return addr, auth, nil
}

func (f *Flags) address() (Address, error) {
	if f.stdio {
		if f.set.Changed(flagListen) && f.listen != DefaultURL {
			return Address{}, hint.New(fmt.Sprintf("--%s and --%s %s exclude each other", flagStdio, flagListen, f.listen), "remove one of them")
		}
		return Address{Kind: Stdio}, nil
	}
	addr, err := ParseListen(f.listen)
	if err != nil {
		return Address{}, fmt.Errorf("invalid value %q for --%s: %w", f.listen, flagListen, err)
	}
	return addr, nil
}

func (f *Flags) authentication() (Auth, error) {
	switch {
	case f.noAuth && f.set.Changed(flagAuth):
		return Auth{}, hint.New(fmt.Sprintf("--%s and --%s exclude each other", flagNoAuth, flagAuth), "remove one of them")
	case f.auth == capabilityToken:
		return f.capability()
	case f.auth == signedBearer:
		return f.signed()
	case f.auth != "" || f.set.Changed(flagAuth):
		return Auth{}, hint.New(fmt.Sprintf("invalid value %q for --%s", f.auth, flagAuth), "use "+capabilityToken+" or "+signedBearer)
	}
	if err := f.only("without --"+flagAuth, "add --"+flagAuth+" "+capabilityToken+" or "+signedBearer); err != nil {
		return Auth{}, err
	}
	if f.noAuth {
		return Auth{Mode: AuthNone}, nil
	}
	return Auth{}, nil
}

// only returns an error if a flag of authentication is set that is not one of those named.
func (f *Flags) only(when, next string, names ...string) error {
	for _, name := range []string{flagTokenFile, flagTokenSHA256, flagSecretFile, flagIssuer, flagAudience, flagSkew} {
		if f.set.Changed(name) && !slices.Contains(names, name) {
			return hint.New(fmt.Sprintf("--%s has no effect %s", name, when), next)
		}
	}
	return nil
}

func (f *Flags) capability() (Auth, error) {
	const mode = "with --" + flagAuth + " " + capabilityToken
	if err := f.only(mode, "remove it, or use --"+flagAuth+" "+signedBearer, flagTokenFile, flagTokenSHA256); err != nil {
		return Auth{}, err
	}
	file, digest := f.set.Changed(flagTokenFile), f.set.Changed(flagTokenSHA256)
	if file == digest {
		message := "one of --%s and --%s is required %s"
		if file {
			message = "--%s and --%s exclude each other %s"
		}
		return Auth{}, hint.New(fmt.Sprintf(message, flagTokenFile, flagTokenSHA256, mode), "use one of them")
	}
	a := Auth{Mode: CapabilityToken, TokenFile: f.tokenFile}
	if file {
		return a, required(flagTokenFile, f.tokenFile)
	}
	b, err := hex.DecodeString(strings.TrimSpace(f.tokenSHA256))
	if err == nil && len(b) != len(a.TokenSHA256) {
		err = errors.New("wrong length")
	}
	if err != nil {
		return Auth{}, hint.New(fmt.Sprintf("invalid value for --%s: not %d hexadecimal digits", flagTokenSHA256, 2*len(a.TokenSHA256)), // it may be the token
			"compute it, for example with: printf %s \"$TOKEN\" | sha256sum")
	}
	copy(a.TokenSHA256[:], b)
	return a, nil
}

func (f *Flags) signed() (Auth, error) {
	const mode = "with --" + flagAuth + " " + signedBearer
	if err := f.only(mode, "remove it, or use --"+flagAuth+" "+capabilityToken, flagSecretFile, flagIssuer, flagAudience, flagSkew); err != nil {
		return Auth{}, err
	}
	if !f.set.Changed(flagSecretFile) {
		return Auth{}, hint.New(fmt.Sprintf("--%s is required %s", flagSecretFile, mode), "add it with the path of a file")
	}
	for _, flag := range []struct{ name, value string }{{flagSecretFile, f.secretFile}, {flagIssuer, f.issuer}, {flagAudience, f.audience}} {
		if !f.set.Changed(flag.name) {
			continue
		}
		// An empty issuer or audience would accept any: more likely it is a variable that is not set.
		if err := required(flag.name, flag.value); err != nil {
			return Auth{}, err
		}
	}
	return Auth{
		Mode: SignedBearer, SecretFile: f.secretFile, Issuer: f.issuer, Audience: f.audience, ClockSkew: time.Duration(f.skew) * time.Second,
	}, nil
}

func required(name, value string) error {
	if strings.TrimSpace(value) == "" {
		return hint.New(fmt.Sprintf("the value of --%s is empty", name), "specify one, or remove the flag")
	}
	return nil
}
