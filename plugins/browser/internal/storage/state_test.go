package storage_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/storage"
)

const example = `{"cookies":[{"name":"sid","value":"1","domain":".Example.com","path":"/","expires":-1,"httpOnly":true,"secure":true,"sameSite":"Lax"},
{"name":"x","value":"2","domain":"other.org"},{"name":"bad","value":"a;b","domain":"other.org"},{"name":"bad","value":"1","domain":"a/b"}],
"origins":[{"origin":"https://Example.com:443","localStorage":[{"name":"k","value":"v"}],"sessionStorage":[{"name":"s","value":"v"}]},
{"origin":"file:///x","localStorage":[{"name":"k","value":"v"}]},{"origin":"https://empty.com","localStorage":[]}]}`

func parse(t *testing.T, text string) storage.State {
	t.Helper()
	s, err := storage.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()
	want := storage.State{
		Cookies: []storage.Cookie{{Name: "sid", Value: "1", Domain: ".example.com", Path: "/", HTTPOnly: true, Secure: true, SameSite: "Lax"}, {Name: "x", Value: "2", Domain: "other.org", Path: "/"}},
		Origins: []storage.Origin{{Origin: "https://example.com", LocalStorage: []storage.Item{{Name: "k", Value: "v"}}}},
	}
	if got := parse(t, example); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"", "[]", "{} {}", `{"cookies":1}`} {
		if s, err := storage.Parse([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

// What is newer replaces, and nothing else is lost.
func TestMerge(t *testing.T) {
	t.Parallel()
	newer := parse(t, `{"cookies":[{"name":"sid","value":"new","domain":".example.com","path":"/"},{"name":"sid","value":"p","domain":".example.com","path":"/p"}],"origins":[{"origin":"https://example.com","localStorage":[{"name":"n","value":"w"}]},{"origin":"http://b.org:81","localStorage":[{"name":"k","value":"v"}]}]}`)
	got := storage.Merge(parse(t, example), newer)
	var cookies, origins []string
	for _, c := range got.Cookies {
		cookies = append(cookies, c.Domain+c.Path+c.Name+"="+c.Value)
	}
	for _, o := range got.Origins {
		origins = append(origins, o.Origin+" "+o.LocalStorage[0].Name)
	}
	if c, o := strings.Join(cookies, ", "), strings.Join(origins, ", "); c != ".example.com/sid=new, .example.com/psid=p, other.org/x=2" || o != "http://b.org:81 k, https://example.com n" {
		t.Errorf("%s; %s", c, o)
	}
	some := got.Only(func(host string) bool { return host == "example.com" })
	if len(some.Cookies) != 2 || len(some.Origins) != 1 {
		t.Errorf("%+v", some)
	}
}

// A sealed state opens with its key and name only, and says nothing.
func TestSeal(t *testing.T) {
	t.Parallel()
	key, s := storage.NewKey(), parse(t, example)
	sealed, err := storage.Seal(key, "work", s)
	if err != nil || strings.Contains(string(sealed), "sid") {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := storage.Open(key, "work", sealed); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	changed := append([]byte{}, sealed...)
	changed[len(changed)-1] ^= 1
	for what, open := range map[string]func() (storage.State, error){
		"another name": func() (storage.State, error) { return storage.Open(key, "home", sealed) },
		"another key":  func() (storage.State, error) { return storage.Open(storage.NewKey(), "work", sealed) },
		"changed":      func() (storage.State, error) { return storage.Open(key, "work", changed) },
		"cut":          func() (storage.State, error) { return storage.Open(key, "work", sealed[:5]) },
		"nothing":      func() (storage.State, error) { return storage.Open(key, "work", nil) },
	} {
		if got, err := open(); !errors.Is(err, storage.ErrSealed) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// Whatever a file contains: what is read of it is read again as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{"cookies":[{"name":"","value":"x","domain":".","path":"x","expires":1e308}],"origins":[{"origin":"https://a:443:443"},{"origin":"http://[::1]:80","localStorage":[{}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := storage.Parse(b)
		if err != nil {
			return
		}
		j, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := storage.Parse(j)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v, then %+v, %v", s, again, err)
		}
	})
}
