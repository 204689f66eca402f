package main

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func decoded(t *testing.T, block string) *config {
	t.Helper()
	cfg := &config{}
	if ds := configblock.Decode([]byte(block), cfg); len(ds) > 0 {
		t.Fatalf("config: %+v", ds)
	}
	return cfg
}

func TestConfigIsChecked(t *testing.T) {
	for block, want := range map[string]string{
		`{"region": "us-east-1"}`:                                                    "",
		`{"region": "us-gov-west-1", "api_key": "k"}`:                                "",
		`{"region": "eu-central-1", "access_key_id": "i", "secret_access_key": "s"}`: "",
		`{"api_key": "k", "base_url": "https://h"}`:                                  "",
		`{"access_key_id": "i", "secret_access_key": "s", "base_url": "https://h"}`:  "region: it is missing",
		`{"api_key": "k"}`:                                                                        "region: it is missing",
		`{"region": "https://x"}`:                                                                 "region: \"https://x\" is not an AWS region",
		`{"region": "us-east-1", "access_key_id": "i"}`:                                           "secret_access_key: it is required",
		`{"region": "us-east-1", "secret_access_key": "s"}`:                                       "access_key_id: it is required",
		`{"region": "us-east-1", "session_token": "t"}`:                                           "session_token: it requires",
		`{"region": "us-east-1", "session_token": "t", "api_key": "k"}`:                           "session_token: it requires",
		`{"region": "us-east-1", "access_key_id": "i", "secret_access_key": "s", "api_key": "k"}`: "access_key_id: access_key_id, api_key and oauth",
	} {
		err := decoded(t, block).check()
		d, ok := errors.AsType[*contract.Diagnostic](err)
		got := ""
		if ok {
			got = d.Path[0].Name + ": " + d.Summary
		}
		if (err != nil) != ok || want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v (%s), want %q", block, err, got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1":  "https://bedrock-runtime.us-east-1.amazonaws.com",
		"cn-north-1": "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
	} {
		if got := address(region); got != want {
			t.Errorf("%s is at %s, want %s", region, got, want)
		}
	}
}

// Each model of the catalogue that thinks by efforts or budgets has a way to be told.
func TestModels(t *testing.T) {
	p, ok := catalog.Embedded("amazon-bedrock")
	if !ok {
		t.Fatal("the catalogue lacks Bedrock")
	}
	claudes := 0
	for _, m := range p.Models {
		c := special(m.ID)
		if strings.Contains(m.ID, "claude") {
			claudes++
			if c.EffortField != "thinking" || !c.InlineCache || c.PlainResults {
				t.Errorf("%s: %+v", m.ID, c)
			}
		}
		if strings.Contains(m.ID, "llama") && (c.EffortField != "" || c.InlineCache || !c.PlainResults || !c.NoStrict) {
			t.Errorf("%s: %+v", m.ID, c)
		}
	}
	if claudes == 0 {
		t.Error("no model of Anthropic's")
	}
	if c := special("arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-2-lite-v1:0"); c.EffortField != "reasoning_config" || !c.NoToolCache {
		t.Errorf("a profile of Nova: %+v", c)
	}
}

func signed(t *testing.T, cfg *config, body string) (http.Header, error) {
	t.Helper()
	u, err := url.Parse("https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse-stream")
	if err != nil {
		t.Fatal(err)
	}
	o := &route.Outgoing{Method: http.MethodPost, URL: u, Header: http.Header{"Accept": {"x"}, "Authorization": {"stale"}}, Body: []byte(body)}
	err = newSignature(cfg).Apply(t.Context(), o)
	return o.Header, err
}

// That the signature is right is for a service to say; the tests with all programs have one.
func TestSignatures(t *testing.T) {
	cfg := decoded(t, `{"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalr", "session_token": "session"}`)
	h, err := signed(t, cfg, "{}")
	if err != nil {
		t.Fatal(err)
	}
	date := h.Get("X-Amz-Date")
	want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" + date[:8] + "/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature="
	if got := h.Get("Authorization"); !strings.HasPrefix(got, want) || len(got) != len(want)+64 || h.Get("X-Amz-Security-Token") != "session" {
		t.Errorf("headers %v", h)
	}
	other, err := signed(t, cfg, "{ }")
	if err != nil || other.Get("Authorization") == h.Get("Authorization") {
		t.Errorf("another body has the same signature: %v", err)
	}
	cfg.SessionToken = configblock.NewSecret("") // the variable is not set: the credentials need none
	if h, err := signed(t, cfg, "{}"); err != nil || h["X-Amz-Security-Token"] != nil {
		t.Errorf("%v, %v", h, err)
	}
	cfg.SecretAccessKey = configblock.NewSecret("")
	if _, err := signed(t, cfg, "{}"); err == nil || !strings.Contains(err.Error(), "secret_access_key is empty") {
		t.Errorf("error %v", err)
	}
}
