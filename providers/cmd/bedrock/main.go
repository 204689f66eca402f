// The program gantry-provider-bedrock provides the models of Amazon Bedrock through its Converse API.
//
// It owns Bedrock's addresses, its two kinds of authentication (a key, or a signature with an account's credentials), and the
// peculiarities of each vendor's models. It does not know the wire format (providers/protocol/converse), how binary frames are
// read (providers/framing/eventstream), or the turn loop.
//
// Credentials come from the provider's block only. The files and services from which AWS's own tools take them are not read.
//
// Start with [bedrock].
package main

import (
	"fmt"
	"regexp"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/framing/eventstream"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/providers/protocol/converse"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

type config struct {
	backend.Config
	Region          string             `json:"region" doc:"Region of AWS that is asked, us-east-1 for example, or env(\"AWS_REGION\"). It may be left out beside base_url and api_key."`
	AccessKeyID     configblock.Secret `json:"access_key_id" sensitive:"true" doc:"With secret_access_key, in place of api_key: requests are signed. env(\"AWS_ACCESS_KEY_ID\"), say."`
	SecretAccessKey configblock.Secret `json:"secret_access_key" sensitive:"true" doc:"env(\"AWS_SECRET_ACCESS_KEY\"), say."`
	SessionToken    configblock.Secret `json:"session_token" sensitive:"true" doc:"Third part of credentials that are given for a time. env(\"AWS_SESSION_TOKEN\"), say."`
}

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("bedrock", version, "Models of Amazon Bedrock, by its Converse API.", &config{},
		func(c any, _ provider.Env) (backend.Vendor, *backend.Config, error) {
			cfg := c.(*config)
			if err := cfg.check(); err != nil {
				return backend.Vendor{}, nil, err
			}
			return bedrock(cfg), &cfg.Config, nil
		})
}

var regionName = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-\d+$`)

// check rejects inconsistent credentials and invalid regions.
func (c *config) check() error {
	signed := !c.AccessKeyID.IsZero() || !c.SecretAccessKey.IsZero()
	switch {
	case c.Region == "" && (signed || c.BaseURL == ""):
		return configblock.Invalid(`it is missing: write the region whose models you use, region = "us-east-1" for example`, contract.Name("region"))
	case c.Region != "" && !regionName.MatchString(c.Region):
		return configblock.Invalid(fmt.Sprintf("%q is not an AWS region: use a name like us-east-1", c.Region), contract.Name("region"))
	case signed && (!c.APIKey.IsZero() || c.OAuth != nil):
		return configblock.Invalid("access_key_id, api_key and oauth are mutually exclusive: keep one of them", contract.Name("access_key_id"))
	case !c.AccessKeyID.IsZero() && c.SecretAccessKey.IsZero():
		return configblock.Invalid("it is required with access_key_id", contract.Name("secret_access_key"))
	case signed && c.AccessKeyID.IsZero():
		return configblock.Invalid("it is required with secret_access_key", contract.Name("access_key_id"))
	case !c.SessionToken.IsZero() && !signed:
		return configblock.Invalid("it requires access_key_id and secret_access_key", contract.Name("session_token"))
	}
	return nil
}

func bedrock(cfg *config) backend.Vendor {
	v := backend.Vendor{
		Name: "Amazon Bedrock", Protocol: eventstream.Over(converse.Protocol{}), Namespace: converse.Namespace, BaseURL: address(cfg.Region),
		KeyVariable: "AWS_BEARER_TOKEN_BEDROCK", Catalog: "amazon-bedrock", API: "converse", Compat: special,
		Effort: func(m catalog.Model) string {
			if special(m.ID).EffortField == "thinking" { // as Anthropic itself
				return "high"
			}
			return ""
		},
		// The vendor may reject signed reasoning after a change on its side. The conversation can continue without it.
		Repair: func(r *protocol.Request, err *llm.Error) (*protocol.Request, bool) {
			if !claude.Refused(err) {
				return nil, false
			}
			return claude.Strip(r)
		},
	}
	if !cfg.AccessKeyID.IsZero() {
		v.Sign = newSignature(cfg)
	}
	return v
}
