package table

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// oldLimit is the name of the output limit before OpenAI changed it.
const oldLimit = "max_tokens"

// rows returns a new table each time, so that callers cannot modify each other's copy.
func rows() []Row {
	return []Row{
		{
			ID: "openai", Name: "OpenAI", BaseURL: "https://api.openai.com/v1",
			KeyVariable: "OPENAI_API_KEY", Catalog: "openai",
			Compat: protocol.Compat{Store: true, PromptCacheKey: true, ToolCallIDs: "openai", NoEmptyTools: true},
		},
		{
			// Reasoning is on unless it is disabled, and ignores temperature and penalties. With tools, each assistant message
			// must contain its reasoning.
			ID: "deepseek", Name: "DeepSeek", BaseURL: "https://api.deepseek.com/v1",
			KeyVariable: "DEEPSEEK_API_KEY", Catalog: "deepseek",
			Compat: protocol.Compat{
				MaxTokensField: oldLimit, NoStore: true, NoParallelTools: true, NoEmptyTools: true, NoImages: true,
				ReasoningField: "reasoning_content", RequireReasoning: true, EffortField: "thinking", EffortMap: threeDegrees(),
			},
		},
		{
			ID: "openrouter", Name: "OpenRouter", BaseURL: "https://openrouter.ai/api/v1",
			KeyVariable: "OPENROUTER_API_KEY", Catalog: "openrouter",
			Compat: protocol.Compat{EffortField: "reasoning", Body: json.RawMessage(`{"usage":{"include":true}}`)},
			model:  openrouter,
		},
		{
			// Without the field in the body, long prompts are truncated silently.
			ID: "fireworks", Name: "Fireworks", BaseURL: "https://api.fireworks.ai/inference/v1",
			KeyVariable: "FIREWORKS_API_KEY", Catalog: "fireworks-ai",
			Compat: protocol.Compat{
				ReasoningField: "reasoning_content", CacheIsolationKey: true,
				Body: json.RawMessage(`{"context_length_exceeded_behavior":"error"}`),
			},
		},
		{
			ID: "together", Name: "Together", BaseURL: "https://api.together.xyz/v1",
			KeyVariable: "TOGETHER_API_KEY", Catalog: "togetherai",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true, NoStrict: true},
		},
		{
			ID: "groq", Name: "Groq", BaseURL: "https://api.groq.com/openai/v1",
			KeyVariable: "GROQ_API_KEY", Catalog: "groq",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true, NoStrict: true, ReasoningField: "reasoning"},
			model:  groq,
		},
		{
			// The context length cannot be set with this API, only with the server's own protocol.
			ID: "ollama", Name: "Ollama", BaseURL: "http://localhost:11434/v1", Keyless: true,
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoParallelTools: true, ReasoningField: "reasoning"},
		},
		{
			// Reasoning is in reasoning_content in old versions, in both fields around 0.11, and in reasoning since: it is sent
			// back in its original field. Tools need --enable-auto-tool-choice and --tool-call-parser.
			ID: "vllm", Name: "vLLM", BaseURL: "http://localhost:8000/v1", Keyless: true,
			Compat: protocol.Compat{NoEmptyTools: true},
		},
		{
			// Tools need --jinja; forcing a particular tool has no effect.
			ID: "llamacpp", Name: "llama.cpp", BaseURL: "http://127.0.0.1:8080/v1", Keyless: true,
			Compat: protocol.Compat{ReasoningField: "reasoning_content"},
		},
		{
			ID: "lmstudio", Name: "LM Studio", BaseURL: "http://localhost:1234/v1", Keyless: true,
		},
		{
			ID: "moonshot", Name: "Moonshot AI", BaseURL: "https://api.moonshot.ai/v1",
			KeyVariable: "MOONSHOT_API_KEY", Catalog: "moonshotai",
			Compat: protocol.Compat{
				MaxTokensField: oldLimit, NoStore: true, NoStrict: true, NoParallelTools: true, Sanitizer: "moonshot", PromptCacheKey: true,
				ReasoningField: "reasoning_content", RequireReasoning: true, EffortField: "thinking",
			},
			model: moonshot,
		},
		{
			ID: "zai", Name: "Z.ai", BaseURL: "https://api.z.ai/api/paas/v4",
			KeyVariable: "ZAI_API_KEY", Catalog: "zai",
			Compat: glm(), model: zai,
		},
		{
			ID: "zhipu", Name: "Zhipu AI", BaseURL: "https://open.bigmodel.cn/api/paas/v4",
			KeyVariable: "ZHIPU_API_KEY", Catalog: "zhipuai",
			Compat: glm(), model: zai,
		},
		{
			ID: "xai", Name: "xAI", BaseURL: "https://api.x.ai/v1",
			KeyVariable: "XAI_API_KEY", CacheKeyHeader: "x-grok-conv-id", Catalog: "xai",
			Compat: protocol.Compat{NoStore: true},
		},
		{
			// Unknown fields are rejected, including stream_options; usage is always sent.
			ID: "mistral", Name: "Mistral AI", BaseURL: "https://api.mistral.ai/v1",
			KeyVariable: "MISTRAL_API_KEY", Catalog: "mistral",
			Compat: protocol.Compat{
				MaxTokensField: oldLimit, NoStore: true, NoStreamUsage: true, RandomSeed: true, PromptCacheKey: true,
				ReasoningField: "content", ToolCallIDs: "mistral", AssistantAfterTool: true,
			},
		},
		{
			ID: "nvidia", Name: "NVIDIA", BaseURL: "https://integrate.api.nvidia.com/v1",
			KeyVariable: "NVIDIA_API_KEY", Catalog: "nvidia",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true, NoStrict: true},
		},
		{
			ID: "cerebras", Name: "Cerebras", BaseURL: "https://api.cerebras.ai/v1",
			KeyVariable: "CEREBRAS_API_KEY", Catalog: "cerebras",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true},
		},
		{
			ID: "chutes", Name: "Chutes", BaseURL: "https://llm.chutes.ai/v1",
			KeyVariable: "CHUTES_API_KEY", Catalog: "chutes",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true},
		},
		{
			// The header for the key is the gateway's own; authorization is for a key of the vendor behind it.
			ID: "cloudflare-gateway", Name: "Cloudflare AI Gateway", BaseURL: "https://gateway.ai.cloudflare.com/v1/{account}/{gateway}/compat",
			Places:      []string{"account", "gateway"},
			KeyVariable: "CLOUDFLARE_API_TOKEN", KeyHeader: "cf-aig-authorization", Catalog: "cloudflare-ai-gateway",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true, NoStrict: true},
		},
		{
			ID: "cloudflare-workers", Name: "Cloudflare Workers AI", BaseURL: "https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1",
			Places: []string{"account"}, KeyVariable: "CLOUDFLARE_API_KEY", Catalog: "cloudflare-workers-ai",
			Compat: protocol.Compat{MaxTokensField: oldLimit, NoStore: true},
		},
		{
			ID: "vercel", Name: "Vercel AI Gateway", BaseURL: "https://ai-gateway.vercel.sh/v1",
			KeyVariable: "AI_GATEWAY_API_KEY", Catalog: "vercel",
			Compat: protocol.Compat{NoStore: true, ReasoningField: "reasoning", EffortField: "reasoning"},
		},
	}
}

// glm returns what applies to Z.ai's models at both of its addresses.
func glm() protocol.Compat {
	return protocol.Compat{
		MaxTokensField: oldLimit, NoStore: true, NoStrict: true, NoParallelTools: true, ToolStream: true,
		ReasoningField: "reasoning_content", EffortField: "thinking",
	}
}

// threeDegrees maps efforts to models with low, high and max.
func threeDegrees() map[string]string {
	return map[string]string{
		"minimal": "low", "low": "low", "medium": "high", "high": "high", "xhigh": "high", "max": "max", "ultra": "max",
	}
}
