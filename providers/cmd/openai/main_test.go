package main

import "testing"

func TestModelsThatSearchForTools(t *testing.T) {
	for id, want := range map[string]bool{
		"gpt-5.4": true, "gpt-5.4-mini": true, "gpt-5.10": true, "gpt-6": true, "gpt-10": true, "gpt-6.1-nano": true,
		"gpt-5": false, "gpt-5.2": false, "gpt-5.3-codex": false, "gpt-4o": false, "gpt-4.1": false, "gpt-5.1": false, "o3": false, "my-gpt-5.4": false,
	} {
		if got := searching.MatchString(id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}
