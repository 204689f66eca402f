package redact

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "Proxy-Authorization": true, "x-api-key": true, "api-key": true, "apiKey": true, "X-Goog-Api-Key": true,
		"access_token": true, "refreshToken": true, "id_token": true, "token": true, "X-Auth-Token": true, "access_tokens": true,
		"client_secret": true, "credentials": true, "signature": true, "X-Amz-Signature": true, "Set-Cookie": true, "password": true,
		"max_tokens": false, "x-ratelimit-remaining-tokens": false, "input_tokens": false, "content-type": false, "key": false, "code": false,
	} {
		if got := SecretName(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"nothing", `the model "gpt" does not exist`, `the model "gpt" does not exist`},
		{"json field", `{"api_key":"abc","model":"m"}`, `{"api_key":"<redacted>","model":"m"}`},
		{"json field with blanks", `{ "api_key" : "abc" , "n": 1}`, `{ "api_key" : "<redacted>" , "n": 1}`},
		{"quotes inside the value", `{"secret":"a\"b\\","n":1}`, `{"secret":"<redacted>","n":1}`},
		{"empty value", `{"token":"","n":1}`, `{"token":"","n":1}`},
		{"value cut off", `{"token":"abc`, `{"token":"<redacted>`},
		{"object", `{"credentials":{"user":"u","note":"}"},"n":1}`, `{"credentials":"<redacted>","n":1}`},
		{"list", `{"access_tokens":["a","b"],"n":1}`, `{"access_tokens":"<redacted>","n":1}`},
		{"object cut off", `{"credentials":{"user":["u"`, `{"credentials":"<redacted>"`},
		{"counts and flags", `{"token":12,"token_ok":true,"secret":null}`, `{"token":12,"token_ok":true,"secret":null}`},
		{"limits", `max_tokens: 4096 is more than max_tokens=2048`, `max_tokens: 4096 is more than max_tokens=2048`},
		{"json inside json", `{"message":"got {\"api_key\":\"abc\",\"n\":1}"}`, `{"message":"got {\"api_key\":\"<redacted>\",\"n\":1}"}`},
		{"escaped quote inside json inside json", `"{\"token\":\"a\\\"b\",\"n\":1}"`, `"{\"token\":\"<redacted>\",\"n\":1}"`},
		{"object inside json inside json", `"{\"credentials\":{\"a\":\"b\"},\"n\":1}"`, `"{\"credentials\":<redacted>,\"n\":1}"`},
		{"single quotes", `{'api_key': 'abc', 'n': 1}`, `{'api_key': '<redacted>', 'n': 1}`},
		{"name=value", `call with api_key=abc&debug=1 failed`, `call with api_key=<redacted>&debug=1 failed`},
		{"name=value quoted", `api_key="a b", x=1`, `api_key="<redacted>", x=1`},
		{"name= at the end", `api_key=`, `api_key=`},
		{"header", "x-api-key: abc\nhost: h", "x-api-key: <redacted>\nhost: h"},
		{"authorization", "Authorization: Bearer abc def\nhost: h", "Authorization: <redacted>\nhost: h"},
		{"bearer alone", "got Bearer abcdef123456", "got Bearer <redacted>"},
		{"bearer in prose", "Bearer authentication is required", "Bearer authentication is required"},
		{"nothing behind bearer", "Bearer ", "Bearer "},
		{"prose", "Invalid token: expected a string", "Invalid token: expected a string"},
		{"url in a text", `Post "https://u:p@h/x?key=s&a=1": EOF`, `Post "https://<redacted>@h/x?key=<redacted>&a=1": EOF`},
	}
	var r Redactor
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Text(tt.in); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestKnownSecrets(t *testing.T) {
	tests := []struct {
		name, secret, in, want string
	}{
		{"as it is", "sk-12345", "no sk-12345, and sk-12345 again", "no <redacted>, and <redacted> again"},
		{"bearer alone", "Bearer sk-12345", "key sk-12345 is wrong", "key <redacted> is wrong"},
		{"bearer whole", "Bearer sk-12345", "'Bearer sk-12345' is wrong", "'<redacted>' is wrong"},
		{"basic", "Basic dXNlcjpwYXNzd2Q=", "dXNlcjpwYXNzd2Q= is user:passwd, or passwd", "<redacted> is <redacted>, or <redacted>"},
		{"escaped for a query", "a/b+c d", "x=a%2Fb%2Bc+d", "x=<redacted>"},
		{"escaped in small letters", "a/b+c d", "x=a%2fb%2bc+d", "x=<redacted>"},
		{"escaped for a path", "a/b+c d", "x=a%2Fb+c%20d", "x=<redacted>"},
		{"escaped for json", `a"b<c/d`, `{"m":"a\"b<c/d a\"b\u003cc/d a\"b<c\/d"}`, `{"m":"<redacted> <redacted> <redacted>"}`},
		{"repeats itself", "abab", "ababab abababab", "<redacted>ab <redacted><redacted>"},
		{"four characters", "abcd", "xabcdx", "x<redacted>x"},
		{"too short", "abc", "abc", "abc"},
		{"blanks around it", " sk-12345\n", "sk-12345", "<redacted>"},
		{"empty", "", "abc", "abc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Redactor
			r.Add(tt.secret)
			if got := r.Known(tt.in); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSecretsThatOverlap(t *testing.T) {
	var r Redactor
	r.Add("abcdef")
	r.Add("defghi")
	r.Add("cdef")
	r.Add("klmnopqrst")
	r.Add("lmno")
	if got := r.Known("1abcdefghi2cdef3klmnopqrst4"); got != "1<redacted>2<redacted>3<redacted>4" {
		t.Error(got)
	}
}

func TestURL(t *testing.T) {
	tests := []struct{ in, want string }{
		{"https://u:p@h/x?api_key=s&key=s&debug=1", "https://h/x?api_key=%3Credacted%3E&key=%3Credacted%3E&debug=1"},
		{"https://h/x?code=1&sig=2&Token=3&a", "https://h/x?code=%3Credacted%3E&sig=%3Credacted%3E&Token=%3Credacted%3E&a"},
		{"https://h/x?api%5Fkey=s", "https://h/x?api%5Fkey=%3Credacted%3E"},
		{"https://h/x?%zz=s&b=2", "https://h/x?%zz=%3Credacted%3E&b=2"},
		{"https://h/x", "https://h/x"},
		{"https://h/bot-sk-12345/x?a=sk-12345#sk", "https://h/bot-%3Credacted%3E/x?a=%3Credacted%3E"},
		{"https://h/%zz", Mark},
		{"http://[::1", Mark},
		{"", ""},
	}
	var r Redactor
	r.Add("sk-12345")
	for _, tt := range tests {
		if got := r.URL(tt.in); got != tt.want {
			t.Errorf("%s:\n got  %s\n want %s", tt.in, got, tt.want)
		}
	}
}

func TestHeader(t *testing.T) {
	var r Redactor
	r.Add("sk-12345")
	for _, tt := range []struct{ name, value, want string }{
		{"Authorization", "Bearer x", Mark},
		{"Set-Cookie", "a=b", Mark},
		{"Content-Type", "text/plain", "text/plain"},
		{"X-Echo", "got sk-12345", "got <redacted>"},
		{"Location", "https://h/?api_key=x", "https://h/?api_key=<redacted>"},
		{"X-Ratelimit-Remaining-Tokens", "12", "12"},
	} {
		if got := r.Header(tt.name, tt.value); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPartialCoversTheBeginningOfASecret(t *testing.T) {
	var r Redactor
	r.Add("sk-123456")
	for in, want := range map[string]string{
		"the key sk-1":      "the key <redacted>",
		"the key sk-12345":  "the key <redacted>",
		"the key sk-123456": "the key <redacted>",
		"the key sk-":       "the key sk-",
		"sk-123456 and sk-": "<redacted> and sk-",
	} {
		if got := r.Partial(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		most     int
		cut      bool
	}{
		{"abc", "abc", 3, false},
		{"abcd", "abc", 3, true},
		{"äöü", "äöü", 3, false},
		{"äöüx", "äöü", 3, true},
		{"a\xff\xfeb", "a\uFFFDb", 3, false},
		{"", "", 0, false},
	} {
		got, cut := Clip(tt.in, tt.most)
		if got != tt.want || cut != tt.cut {
			t.Errorf("%q: %q, %v", tt.in, got, cut)
		}
	}
}

// leaks is what of the property does not hold, or "".
func leaks(text, one, two string) string {
	var r Redactor
	r.Add(one)
	r.Add(two)
	valid := strings.ToValidUTF8(text, "\uFFFD")
	for name, out := range map[string]string{"text": r.Text(valid), "partial": r.Partial(valid), "known": r.Known(valid)} {
		bare := strings.ReplaceAll(out, Mark, "\x00")
		for _, secret := range []string{one, two} {
			secret = strings.TrimSpace(secret)
			if utf8.RuneCountInString(secret) < minSecret || strings.Contains(secret, "\x00") || strings.Contains(Mark, secret) {
				continue
			}
			if strings.Contains(bare, secret) {
				return name + " shows " + secret
			}
		}
	}
	r.URL(text)
	return ""
}

func TestNothingKnownIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{
			"ab", "abab", "Bearer ", "token", "=", ":", `"`, `\"`, `\`, "{", "}", "api_key", " ", "&", "<redacted>", "%2F", "/", "é", "\n", "?key=", "://", "@",
		})
		join := func(label string) string { return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, label), "") }
		one, two := join("one"), join("two")
		text := join("before") + one + join("between") + two + join("after")
		if l := leaks(text, one, two); l != "" {
			t.Fatal(l)
		}
	})
}

func FuzzRedactor(f *testing.F) {
	f.Add(`{"api_key":"abc"} Bearer `, "Bearer sk-12345", "abcd")
	f.Add(`Authorization: Bearer sk-12345 https://u:p@h?key=1`, "sk-12345", "a\"b/c")
	f.Add(`{\"secret\":\"x\\\"y`, `x\"y`, "é漢字é")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		if l := leaks(text, one, two); l != "" {
			t.Fatal(l)
		}
	})
}
