package main

import (
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// address is Bedrock's in a region.
func address(region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://bedrock-runtime." + region + "." + domain
}

// vendors says what is special about the models of one vendor. Ids have the vendor's name in them, behind a group of
// regions or inside the name of a resource.
var vendors = []struct {
	name   string
	compat protocol.Compat
}{
	{"anthropic.claude", protocol.Compat{EffortField: "thinking", InlineCache: true}},
	{"amazon.nova", protocol.Compat{EffortField: "reasoning_config", InlineCache: true, NoToolCache: true, NoStrict: true}},
	{"openai.gpt", protocol.Compat{EffortField: "reasoning_effort", PlainResults: true, NoStrict: true}},
}

// special is what is special about a model. Of a model that is not known the least is expected.
func special(model string) protocol.Compat {
	for _, v := range vendors {
		if strings.Contains(model, v.name) {
			return v.compat
		}
	}
	return protocol.Compat{PlainResults: true, NoStrict: true}
}
