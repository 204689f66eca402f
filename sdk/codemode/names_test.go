package codemode

import (
	"strings"
	"testing"
)

func TestCallableName(t *testing.T) {
	for name, want := range map[string]string{
		"get-weather": "get_weather", "api.v2.search": "api_v2_search", "my tool": "my_tool", "3drender": "_3drender",
		"class": "class_", "return": "return_", "delete": "delete_", "hello@world!": "helloworld", "": "_", "@#$": "$", "@#!": "_",
		"getWeather": "getWeather", "_private": "_private", "$jquery": "$jquery", "größe": "gre",
	} {
		if got := CallableName(name); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
}

func TestCheckNamespaces(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"dup dup", `Duplicate provider name "dup"`}, {"__dispatchers", `Provider name "__dispatchers" is reserved`},
		{"Promise", `Provider name "Promise" is reserved`}, {"class", `Provider name "class" is reserved`},
		{"a-b", `Provider name "a-b" is not a valid JavaScript identifier`}, {"a $b", ""},
	} {
		err := checkNamespaces(strings.Fields(c.names))
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %v", c.names, err)
		}
	}
}

func TestCallableCollision(t *testing.T) {
	_, err := callable("p", []string{"foo-bar", "foo_bar"})
	if err == nil || err.Error() != `Tool names "foo-bar" and "foo_bar" both sanitize to "foo_bar" in provider "p"` {
		t.Error(err)
	}
}

func TestTypeName(t *testing.T) {
	for name, want := range map[string]string{"get_weather": "GetWeather", "_3drender": "_3drender", "getItem": "GetItem", "a__b": "A_B"} {
		if got := typeName(name); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
}

func FuzzCallableName(f *testing.F) {
	f.Add("get-weather")
	f.Add("class")
	f.Fuzz(func(t *testing.T, name string) {
		got := CallableName(name)
		if !identifier.MatchString(got) || listed(reservedWords, got) || CallableName(got) != got {
			t.Errorf("%q: %q", name, got)
		}
	})
}
