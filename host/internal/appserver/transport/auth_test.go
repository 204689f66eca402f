package transport

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/golang-jwt/jwt/v5"
	"github.com/hashicorp/go-hclog"
)

// write writes a file that only its owner can read.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, a Auth) verifier {
	t.Helper()
	v, err := a.load(hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAuthorizationHeader(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values []string
		token  string
		err    error
	}{
		"none":                  {nil, "", noToken},
		"empty":                 {[]string{""}, "", badHeader},
		"scheme only":           {[]string{"Bearer"}, "", badHeader},
		"scheme and blanks":     {[]string{"Bearer   "}, "", badHeader},
		"token only":            {[]string{"secret"}, "", badHeader},
		"other scheme":          {[]string{"Basic c2VjcmV0"}, "", badHeader},
		"prefix of the scheme":  {[]string{"Bearersecret"}, "", badHeader},
		"two":                   {[]string{"Bearer a", "Bearer b"}, "", badHeader},
		"token":                 {[]string{"Bearer secret"}, "secret", nil},
		"lower case":            {[]string{"bearer secret"}, "secret", nil},
		"upper case":            {[]string{"BEARER secret"}, "secret", nil},
		"blanks around a token": {[]string{" Bearer   secret  "}, "secret", nil},
		"blank in a token":      {[]string{"Bearer a b"}, "a b", nil},
	} {
		h := http.Header{}
		for _, v := range test.values {
			h.Add("Authorization", v)
		}
		if token, err := bearer(h); token != test.token || err != test.err {
			t.Errorf("%s: %q, %v, want %q, %v", name, token, err, test.token, test.err)
		}
	}
}

func TestCapabilityToken(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Auth{
		"file":   {Mode: CapabilityToken, TokenFile: write(t, "\n  secret\t\r\n")},
		"digest": {Mode: CapabilityToken, TokenSHA256: sha256.Sum256([]byte("secret"))},
	} {
		v := load(t, a)
		for token, want := range map[string]error{
			"secret": nil, "Secret": wrongToken, "secre": wrongToken, "secrets": wrongToken, "": wrongToken, "sec\x00ret": wrongToken,
		} {
			if err := v.verify(token, time.Now()); err != want {
				t.Errorf("%s: %q: %v, want %v", name, token, err, want)
			}
		}
	}
}

const sharedSecret = "0123456789abcdef0123456789abcdef"

func TestSignedBearerToken(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 999_999_999)
	at := func(seconds int64) int64 { return now.Unix() + seconds }
	type claims = jwt.MapClaims
	sign := func(c claims) string { return signJWT(t, jwt.SigningMethodHS256, []byte(sharedSecret), c) }
	whole := Auth{Mode: SignedBearer, SecretFile: write(t, " "+sharedSecret+"\n"), ClockSkew: 30 * time.Second}
	named := whole
	named.Issuer, named.Audience = "me", "gantry"
	strict := whole
	strict.ClockSkew = 0

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	valid := sign(claims{"exp": at(60)})
	parts := strings.Split(valid, ".")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(valid) - 1 // its two lowest bits are not part of the signature
	respelled := valid[:last] + alphabet[strings.IndexByte(alphabet, valid[last])+1:][:1]

	for name, test := range map[string]struct {
		auth  Auth
		token string
		want  error
	}{
		"valid":                           {whole, valid, nil},
		"unknown claims":                  {whole, sign(claims{"exp": at(60), "x": claims{"y": 1}, "sub": "s", "jti": "j"}), nil},
		"any issuer":                      {whole, sign(claims{"exp": at(60), "iss": "x", "aud": "y"}), nil},
		"other spelling of the signature": {whole, respelled, badJWT},
		"issued later":                    {whole, sign(claims{"exp": at(900), "iat": at(600)}), nil},
		"fraction of a second":            {whole, sign(claims{"exp": float64(at(60)) + 0.5}), nil},
		"within the skew":                 {whole, sign(claims{"exp": at(-30)}), nil},
		"past the skew":                   {whole, sign(claims{"exp": at(-31)}), expiredJWT},
		"without skew":                    {strict, sign(claims{"exp": at(0)}), nil},
		"without skew, past":              {strict, sign(claims{"exp": at(-1)}), expiredJWT},
		"long ago":                        {whole, sign(claims{"exp": 0}), expiredJWT},
		"negative":                        {whole, sign(claims{"exp": -1}), expiredJWT},
		"not before, within skew":         {whole, sign(claims{"exp": at(60), "nbf": at(30)}), nil},
		"not before":                      {whole, sign(claims{"exp": at(60), "nbf": at(31)}), earlyJWT},
		"expired and early":               {whole, sign(claims{"exp": at(-60), "nbf": at(60)}), expiredJWT},
		"no expiry":                       {whole, sign(claims{"sub": "s"}), badJWT},
		"expiry is null":                  {whole, sign(claims{"exp": nil}), badJWT},
		"expiry is text":                  {whole, sign(claims{"exp": "soon"}), badJWT},
		"not before is text":              {whole, sign(claims{"exp": at(60), "nbf": "soon"}), badJWT},
		"issuer and audience":             {named, sign(claims{"exp": at(60), "iss": "me", "aud": "gantry"}), nil},
		"one of the audiences":            {named, sign(claims{"exp": at(60), "iss": "me", "aud": []string{"a", "gantry"}}), nil},
		"no issuer":                       {named, sign(claims{"exp": at(60), "aud": "gantry"}), wrongIssuerJWT},
		"other issuer":                    {named, sign(claims{"exp": at(60), "iss": "Me", "aud": "gantry"}), wrongIssuerJWT},
		"no audience":                     {named, sign(claims{"exp": at(60), "iss": "me"}), wrongAudience},
		"other audience":                  {named, sign(claims{"exp": at(60), "iss": "me", "aud": "gantry2"}), wrongAudience},
		"other audiences":                 {named, sign(claims{"exp": at(60), "iss": "me", "aud": []string{}}), wrongAudience},
		"audience is a number":            {named, sign(claims{"exp": at(60), "iss": "me", "aud": 1}), badJWT},
		"audience has a number":           {named, sign(claims{"exp": at(60), "iss": "me", "aud": []any{"gantry", 1}}), badJWT},
		"expired, other issuer":           {named, sign(claims{"exp": at(-60), "iss": "x"}), expiredJWT},
		"other secret":                    {whole, signJWT(t, jwt.SigningMethodHS256, []byte("another secret of at least 32 bytes"), claims{"exp": at(60)}), badJWT},
		"untrimmed secret":                {whole, signJWT(t, jwt.SigningMethodHS256, []byte(" "+sharedSecret+"\n"), claims{"exp": at(60)}), badJWT},
		"HS384":                           {whole, signJWT(t, jwt.SigningMethodHS384, []byte(sharedSecret), claims{"exp": at(60)}), badJWT},
		"HS512":                           {whole, signJWT(t, jwt.SigningMethodHS512, []byte(sharedSecret), claims{"exp": at(60)}), badJWT},
		"RS256":                           {whole, signJWT(t, jwt.SigningMethodRS256, key, claims{"exp": at(60)}), badJWT},
		"none":                            {whole, signJWT(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims{"exp": at(60)}), badJWT},
		"no signature":                    {whole, parts[0] + "." + parts[1] + ".", badJWT},
		"two parts":                       {whole, parts[0] + "." + parts[1], badJWT},
		"four parts":                      {whole, valid + ".x", badJWT},
		"other claims":                    {whole, parts[0] + "." + strings.Split(sign(claims{"exp": at(61)}), ".")[1] + "." + parts[2], badJWT},
		"not a token":                     {whole, "secret", badJWT},
		"the secret":                      {whole, sharedSecret, badJWT},
	} {
		if err := load(t, test.auth).verify(test.token, now); err != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func signJWT(t testing.TB, m jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	s, err := jwt.NewWithClaims(m, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, test := range map[string]struct {
		auth Auth
		want string
	}{
		"no token file":    {Auth{Mode: CapabilityToken, TokenFile: missing}, "no such file"},
		"empty token":      {Auth{Mode: CapabilityToken, TokenFile: write(t, " \n")}, "is empty"},
		"token too large":  {Auth{Mode: CapabilityToken, TokenFile: write(t, strings.Repeat("x", maxSecretFile+1))}, "larger than 64 KiB"},
		"no secret file":   {Auth{Mode: SignedBearer, SecretFile: missing}, "no such file"},
		"secret too short": {Auth{Mode: SignedBearer, SecretFile: write(t, "  "+sharedSecret[1:]+"  ")}, "31 bytes"},
	} {
		_, err := test.auth.load(hclog.NewNullLogger())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if message, next := hint.Split(err); !strings.Contains(message, test.want) || next == "" {
			t.Errorf("%s: %q, next %q", name, message, next)
		}
	}

	var out strings.Builder
	log := hclog.New(&hclog.LoggerOptions{Output: &out})
	open := write(t, "secret")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Auth{Mode: CapabilityToken, TokenFile: open}).load(log); err != nil || !strings.Contains(out.String(), "readable by other users") {
		t.Errorf("a token that others can read: %v, %q", err, out.String())
	}
}

func TestAuthPermitsAddress(t *testing.T) {
	t.Parallel()
	token := Auth{Mode: CapabilityToken}
	for _, test := range []struct {
		url  string
		auth Auth
		ok   bool
	}{
		{"stdio://", Auth{}, true}, {"unix://", Auth{}, true},
		{"ws://127.0.0.1:0", Auth{}, false}, {"ws://[::1]:0", Auth{}, false}, {"ws://0.0.0.0:0", Auth{}, false}, {"ws://10.0.0.1:0", Auth{}, false},
		{"ws://127.0.0.1:0", Auth{Mode: AuthNone}, true}, {"ws://127.8.9.1:0", Auth{Mode: AuthNone}, true}, {"ws://[::1]:0", Auth{Mode: AuthNone}, true},
		{"ws://[::ffff:127.0.0.1]:0", Auth{Mode: AuthNone}, true},
		{"ws://0.0.0.0:0", Auth{Mode: AuthNone}, false}, {"ws://[::]:0", Auth{Mode: AuthNone}, false}, {"ws://10.0.0.1:0", Auth{Mode: AuthNone}, false},
		{"ws://127.0.0.1:0", token, true}, {"ws://0.0.0.0:0", token, true}, {"ws://0.0.0.0:0", Auth{Mode: SignedBearer}, true},
	} {
		addr, err := ParseListen(test.url)
		if err != nil {
			t.Fatal(err)
		}
		err = test.auth.permits(addr)
		if (err == nil) != test.ok {
			t.Errorf("%s with mode %d: %v, want permitted: %v", test.url, test.auth.Mode, err, test.ok)
		}
		if err == nil {
			continue
		}
		_, next := hint.Split(err)
		if next == "" || strings.Contains(next, "--no-auth") != addr.TCP.Addr().IsLoopback() {
			t.Errorf("%s: next step %q", test.url, next)
		}
	}
}

// No header lets a client in that does not know the token, and none is a panic.
func FuzzAuthorize(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte(sharedSecret), 0o600); err != nil {
		f.Fatal(err)
	}
	signed := load(f, Auth{Mode: SignedBearer, SecretFile: path, Issuer: "me", Audience: "gantry"})
	token := load(f, Auth{Mode: CapabilityToken, TokenFile: path})
	now := time.Unix(1_800_000_000, 0)
	good := signJWT(f, jwt.SigningMethodHS256, []byte(sharedSecret), jwt.MapClaims{"exp": now.Unix(), "iss": "me", "aud": "gantry"})
	parts := strings.SplitAfter(good, ".")
	for _, seed := range []string{
		"", "Bearer", "Bearer x", "Basic eDp5", "bearer " + parts[0] + parts[1], "Bearer ..", "Bearer " + parts[0] + parts[1] + "x",
		"Bearer eyJhbGciOiJub25lIn0.eyJleHAiOjFlMzAwfQ.", "Bearer " + parts[0] + "bnVsbA." + parts[2],
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		h := http.Header{"Authorization": {header}}
		for name, v := range map[string]verifier{"signed": signed, "token": token} {
			err := authorize(v, h, now)
			if err == nil && !strings.Contains(header, sharedSecret) && !strings.Contains(header, good) {
				t.Errorf("%s: %q is accepted", name, header)
			}
			if _, ok := errors.AsType[refusal](err); err != nil && !ok {
				t.Errorf("%s: %q: %v is no response", name, header, err)
			}
		}
	})
}

// The claims of a token are whatever its signer has written.
func FuzzClaims(f *testing.F) {
	v := &signed{parser: jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()), secret: []byte(sharedSecret), issuer: "me", audience: "gantry"}
	for _, seed := range []string{`{}`, `null`, `[]`, `{"exp":1e300}`, `{"exp":9223372036854775807}`, `{"exp":-1e300,"nbf":1e300}`, `{"exp":1800000000,"iss":"me","aud":["gantry"]}`, `{"aud":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, claims string) {
		text := segment(`{"alg":"HS256"}`) + "." + segment(claims)
		signature, err := jwt.SigningMethodHS256.Sign(text, []byte(sharedSecret))
		if err != nil {
			t.Fatal(err)
		}
		err = v.verify(text+"."+segment(string(signature)), time.Unix(1_800_000_000, 0))
		var c struct{ Exp, Iss, Aud any }
		if json.Unmarshal([]byte(claims), &c); err == nil && (c.Exp == nil || c.Iss != "me" || c.Aud == nil) {
			t.Errorf("%s is accepted", claims)
		}
	})
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
