package main

import (
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// address returns Bedrock's address in a region.
func address(region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://bedrock-runtime." + region + "." + domain
}

// vendors contains the peculiarities of each vendor's models. Model IDs contain the vendor's name, after a group of regions or
// within the name of a resource.
var vendors = []struct {
	name   string
	compat protocol.Compat
}{
	{"anthropic.claude", protocol.Compat{EffortField: "thinking", InlineCache: true}},
	{"amazon.nova", protocol.Compat{EffortField: "reasoning_config", InlineCache: true, NoToolCache: true, NoStrict: true}},
	{"openai.gpt", protocol.Compat{EffortField: "reasoning_effort", PlainResults: true, NoStrict: true}},
}

// special returns the peculiarities of a model, or minimal abilities for an unknown one.
func special(model string) protocol.Compat {
	for _, v := range vendors {
		if strings.Contains(model, v.name) {
			return v.compat
		}
	}
	return protocol.Compat{PlainResults: true, NoStrict: true}
}
