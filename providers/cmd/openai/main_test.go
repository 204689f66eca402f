package main

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

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

// Who is not verified gets no summaries, and is not asked for any again.
func TestRefusedSummaries(t *testing.T) {
	v := openai(&config{})
	ask := func() *protocol.Request {
		r := &protocol.Request{Request: &llm.Request{Model: "gpt-5.4"}, Model: protocol.Model{ID: "gpt-5.4", Reasons: true}, Namespace: "openai"}
		v.Amend(r)
		return r
	}
	summary := func(r *protocol.Request) bool {
		b, err := v.Protocol.Body(r)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), `"summary":"auto"`)
	}
	r := ask()
	if !summary(r) {
		t.Fatal("no summary is requested")
	}
	for _, e := range []*llm.Error{
		{Code: llm.ErrInvalidRequest, Message: "Invalid schema for function 'f'"},
		{Code: llm.ErrAuthentication, Message: "Your organization must be verified to generate reasoning summaries."},
	} {
		if _, ok := v.Repair(r, e); ok {
			t.Errorf("%v is repaired", e)
		}
	}
	if !summary(ask()) {
		t.Error("another error ended the summaries")
	}
	refusal := &llm.Error{Code: llm.ErrInvalidRequest, Message: "Your organization must be verified to generate reasoning summaries. Please go to the settings."}
	repaired, ok := v.Repair(r, refusal)
	if !ok || summary(repaired) || !summary(r) {
		t.Errorf("repaired %v, request %+v", ok, repaired)
	}
	if summary(ask()) {
		t.Error("a summary is requested again")
	}
	if _, ok := v.Repair(ask(), refusal); ok {
		t.Error("the same is repaired twice")
	}
}
