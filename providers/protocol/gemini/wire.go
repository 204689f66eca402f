package gemini

import "encoding/json"

// body is the request body.
type body struct {
	Contents          []content         `json:"contents"`
	SystemInstruction *content          `json:"systemInstruction,omitempty"`
	Tools             []tool            `json:"tools,omitempty"`
	ToolConfig        *toolConfig       `json:"toolConfig,omitempty"`
	SafetySettings    []SafetySetting   `json:"safetySettings,omitempty"`
	GenerationConfig  generationConfig  `json:"generationConfig,omitzero"`
	CachedContent     string            `json:"cachedContent,omitempty"`
	ServiceTier       string            `json:"serviceTier,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"` // "user" or "model"; none for the system text
	Parts []part `json:"parts"`
}

// part is a part of the request. One field determines its kind; any kind may have a signature.
type part struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	hosted
	ThoughtSignature string `json:"thoughtSignature,omitempty"`
}

// hosted are parts of tools that Google runs itself. They are sent back unchanged.
type hosted struct {
	ExecutableCode      json.RawMessage `json:"executableCode,omitempty"`
	CodeExecutionResult json.RawMessage `json:"codeExecutionResult,omitempty"`
	ToolCall            json.RawMessage `json:"toolCall,omitempty"`
	ToolResponse        json.RawMessage `json:"toolResponse,omitempty"`
}

func (h *hosted) empty() bool {
	return len(h.ExecutableCode)+len(h.CodeExecutionResult)+len(h.ToolCall)+len(h.ToolResponse) == 0
}

func textPart(text string) part { return part{Text: &text} }

type blob struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type fileData struct {
	MIMEType string `json:"mimeType,omitempty"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string      `json:"id,omitempty"`
	Name     string      `json:"name"`
	Response response    `json:"response"`
	Parts    []mediaPart `json:"parts,omitempty"`
}

// response is the result of a call. Google treats a result under "error" as failed.
type response struct {
	Name    string  `json:"name"`
	Content *string `json:"content,omitempty"`
	Error   *string `json:"error,omitempty"`
}

type mediaPart struct {
	InlineData *blob `json:"inlineData"`
}

type tool struct {
	FunctionDeclarations []functionDeclaration `json:"functionDeclarations,omitempty"`
	GoogleSearch         *struct{}             `json:"googleSearch,omitempty"`
	CodeExecution        *struct{}             `json:"codeExecution,omitempty"`
	URLContext           *struct{}             `json:"urlContext,omitempty"`
}

type functionDeclaration struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	Parameters           json.RawMessage `json:"parameters,omitempty"`
	ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	FunctionCallingConfig            *functionCallingConfig `json:"functionCallingConfig,omitempty"`
	IncludeServerSideToolInvocations bool                   `json:"includeServerSideToolInvocations,omitempty"`
}

type functionCallingConfig struct {
	Mode                 string   `json:"mode"`
	AllowedFunctionNames []string `json:"allowedFunctionNames,omitempty"`
}

type generationConfig struct {
	MaxOutputTokens    *int64          `json:"maxOutputTokens,omitempty"`
	Temperature        *float64        `json:"temperature,omitempty"`
	TopP               *float64        `json:"topP,omitempty"`
	TopK               *int64          `json:"topK,omitempty"`
	FrequencyPenalty   *float64        `json:"frequencyPenalty,omitempty"`
	PresencePenalty    *float64        `json:"presencePenalty,omitempty"`
	Seed               *int64          `json:"seed,omitempty"`
	StopSequences      []string        `json:"stopSequences,omitempty"`
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseSchema     json.RawMessage `json:"responseSchema,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
	ResponseModalities []string        `json:"responseModalities,omitempty"`
	MediaResolution    string          `json:"mediaResolution,omitempty"`
	ThinkingConfig     *ThinkingConfig `json:"thinkingConfig,omitempty"`
}
