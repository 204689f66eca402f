package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/spf13/pflag"
)

func parseFlags(t *testing.T, args string) (Address, Auth, error) {
	t.Helper()
	set := pflag.NewFlagSet("app-server", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	var f Flags
	f.Register(set)
	argv := strings.Fields(args)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "''", "")
	}
	if err := set.Parse(argv); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return f.Parse()
}

func TestFlags(t *testing.T) {
	t.Parallel()
	const ws = "--listen ws://127.0.0.1:0 "
	local := Address{Kind: TCP, TCP: netip.MustParseAddrPort("127.0.0.1:0")}
	digest := sha256.Sum256([]byte("secret"))
	upper := strings.ToUpper(hex.EncodeToString(digest[:]))
	for args, want := range map[string]struct {
		addr Address
		auth Auth
	}{
		"":                          {Address{Kind: Stdio}, Auth{}},
		"--stdio":                   {Address{Kind: Stdio}, Auth{}},
		"--stdio --listen stdio://": {Address{Kind: Stdio}, Auth{}},
		"--listen unix://":          {Address{Kind: Unix}, Auth{}},
		"--listen=unix://a":         {Address{Kind: Unix, Path: "a"}, Auth{}},
		"--listen off":              {Address{Kind: Off}, Auth{}},
		ws:                          {local, Auth{}}, // refused by Listen
		ws + "--no-auth":            {local, Auth{Mode: AuthNone}},
		ws + "--no-auth=false":      {local, Auth{}},
		ws + "--ws-auth capability-token --ws-token-file f":            {local, Auth{Mode: CapabilityToken, TokenFile: "f"}},
		ws + "--ws-auth capability-token --ws-token-sha256 " + upper:   {local, Auth{Mode: CapabilityToken, TokenSHA256: digest}},
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f": {local, Auth{Mode: SignedBearer, SecretFile: "f", ClockSkew: 30 * time.Second}},
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f --ws-issuer i --ws-audience a --ws-max-clock-skew-seconds 0": {
			local, Auth{Mode: SignedBearer, SecretFile: "f", Issuer: "i", Audience: "a"},
		},
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f --ws-max-clock-skew-seconds 4294967295": {
			local, Auth{Mode: SignedBearer, SecretFile: "f", ClockSkew: 4294967295 * time.Second},
		},
	} {
		addr, auth, err := parseFlags(t, args)
		if err != nil || addr != want.addr || auth != want.auth {
			t.Errorf("%s: %+v, %+v, %v, want %+v", args, addr, auth, err, want)
		}
	}
	for args, want := range map[string]string{
		"--listen ws://localhost:0":                          `invalid value "ws://localhost:0" for --listen: "localhost" is not an IP address`,
		"--listen ''":                                        `invalid value "" for --listen`,
		"--stdio --listen off":                               "--stdio and --listen off exclude each other",
		ws + "--ws-auth token":                               `invalid value "token" for --ws-auth`,
		ws + "--ws-auth ''":                                  `invalid value "" for --ws-auth`,
		ws + "--ws-auth capability-token --no-auth":          "--no-auth and --ws-auth exclude each other",
		ws + "--ws-auth capability-token":                    "one of --ws-token-file and --ws-token-sha256 is required",
		ws + "--ws-auth capability-token --ws-token-file ''": "the value of --ws-token-file is empty",
		ws + "--ws-auth capability-token --ws-token-file f --ws-token-sha256 " + upper:   "exclude each other",
		ws + "--ws-auth capability-token --ws-token-sha256 " + upper[2:]:                 "not 64 hexadecimal digits",
		ws + "--ws-auth capability-token --ws-token-sha256 " + upper + "00":              "not 64 hexadecimal digits",
		ws + "--ws-auth capability-token --ws-token-sha256 the-token":                    "not 64 hexadecimal digits",
		ws + "--ws-auth capability-token --ws-token-file f --ws-issuer i":                "--ws-issuer has no effect with --ws-auth capability-token",
		ws + "--ws-auth signed-bearer-token":                                             "--ws-shared-secret-file is required",
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file ''":                  "--ws-shared-secret-file is empty",
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f --ws-issuer ''":    "--ws-issuer is empty",
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f --ws-audience ''":  "--ws-audience is empty",
		ws + "--ws-auth signed-bearer-token --ws-shared-secret-file f --ws-token-file f": "--ws-token-file has no effect",
		ws + "--ws-token-file f":                       "--ws-token-file has no effect without --ws-auth",
		ws + "--no-auth --ws-max-clock-skew-seconds 1": "--ws-max-clock-skew-seconds has no effect without --ws-auth",
		"--no-auth": "--no-auth has no effect on stdio://",
		"--listen unix:// --ws-auth capability-token --ws-token-file f": "--ws-auth has no effect on unix://",
	} {
		_, _, err := parseFlags(t, args)
		if err == nil {
			t.Errorf("%s is accepted", args)
			continue
		}
		message, next := hint.Split(err)
		if !strings.Contains(message, want) || next == "" {
			t.Errorf("%s: %q, next %q, want %q", args, message, next, want)
		}
		if strings.Contains(message+next, "the-token") {
			t.Errorf("%s: reveals the token: %v", args, err)
		}
	}
}
