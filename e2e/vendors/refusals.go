package vendors

import "strings"

// Reason is why a vendor refuses a request.
type Reason string

// The reasons. Not every vendor knows all of them.
const (
	WrongKey     Reason = "wrong key"
	Forbidden    Reason = "forbidden"
	Quota        Reason = "quota"
	Unpaid       Reason = "unpaid"
	RateLimited  Reason = "rate limited"
	Overloaded   Reason = "overloaded"
	TooLong      Reason = "too long"
	AgainstRules Reason = "against the rules"
	UnknownModel Reason = "unknown model"
)

// refusal is a vendor's answer. KEY in its body is the key that came with the request.
type refusal struct {
	status int
	body   string
}

// refusals are answers as the services give them, by vendor.
var refusals = map[string]map[Reason]refusal{
	"openai-responses": {
		WrongKey: {401, `{"error":{"message":"Incorrect API key provided: KEY. You can find your API key at https://platform.openai.com/account/api-keys.",` +
			`"type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`},
		Forbidden: {403, `{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","param":null,` +
			`"code":"unsupported_country_region_territory"}}`},
		Quota: {429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota",` +
			`"param":null,"code":"insufficient_quota"}}`},
		RateLimited: {429, `{"error":{"message":"Rate limit reached for gpt-5.4 on tokens per min (TPM): Limit 30000, Used 29800, Requested 900.",` +
			`"type":"tokens","param":null,"code":"rate_limit_exceeded"}}`},
		Overloaded: {503, `{"error":{"message":"The server is currently overloaded with other requests.","type":"server_error","param":null,"code":null}}`},
		TooLong: {400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.",` +
			`"type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
		AgainstRules: {400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.",` +
			`"type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`},
		UnknownModel: {404, `{"error":{"message":"The model ` + "`gpt-5.4`" + ` does not exist or you do not have access to it.",` +
			`"type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
	},
	"openai-chat": {
		WrongKey:    {401, `{"object":"error","message":"Unauthorized","type":"Unauthorized","param":null,"code":401}`},
		Forbidden:   {403, `{"error":{"code":403,"message":"This key may not use the model","metadata":{"provider_name":null}}}`},
		Unpaid:      {402, `{"error":{"message":"Insufficient credits. Add more at https://openrouter.ai/settings/credits","code":402}}`},
		RateLimited: {429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"own-model is temporarily rate-limited upstream"}}}`},
		Overloaded:  {503, `{"object":"error","message":"The engine is not ready","type":"ServiceUnavailable","param":null,"code":503}`},
		TooLong: {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages.",` +
			`"type":"BadRequestError","param":null,"code":400}`},
		AgainstRules: {403, `{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"hm",` +
			`"provider_name":"x"}}}`},
		UnknownModel: {404, `{"object":"error","message":"The model ` + "`own-model`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`},
	},
	"deepseek": {
		WrongKey: {401, `{"error":{"message":"Authentication Fails, Your api key: KEY is invalid","type":"authentication_error","param":null,` +
			`"code":"invalid_request_error"}}`},
		Unpaid:      {402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`},
		RateLimited: {429, `{"error":{"message":"You are sending requests too quickly.","type":"rate_limit_error","param":null,"code":"rate_limit_error"}}`},
		Overloaded:  {503, `{"error":{"message":"Service is too busy.","type":"service_unavailable_error","param":null,"code":"service_unavailable_error"}}`},
		TooLong: {400, `{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 140000 tokens.",` +
			`"type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`},
		AgainstRules: {400, `{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`},
		UnknownModel: {400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`},
	},
	"anthropic": {
		WrongKey: {401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_1"}`},
		Forbidden: {403, `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified ` +
			`resource."},"request_id":"req_1"}`},
		Unpaid: {400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. ` +
			`Please go to Plans & Billing to upgrade or purchase credits."},"request_id":"req_1"}`},
		Quota: {400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. ` +
			`You will regain access on 2030-01-01 at 00:00 UTC."},"request_id":"req_1"}`},
		RateLimited: {429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. ` +
			`Please try again later."},"request_id":"req_1"}`},
		Overloaded: {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`},
		TooLong: {400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: ` +
			`178959 + 64000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"},"request_id":"req_1"}`},
		AgainstRules: {400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"},` +
			`"request_id":"req_1"}`},
		UnknownModel: {404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-opus-4-8"},"request_id":"req_1"}`},
	},
	"gemini": {
		WrongKey: {400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`},
		Forbidden: {403, `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:KEY' has been suspended.",` +
			`"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED"}]}}`},
		Quota: {429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n` +
			`* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-3.5-flash\n` +
			`Please retry in 45.5s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45s"}]}}`},
		RateLimited: {429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n` +
			`* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10\nPlease retry in 1s.",` +
			`"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` +
			`{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}`},
		Overloaded: {503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`},
		TooLong: {400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",` +
			`"status":"INVALID_ARGUMENT"}}`},
		UnknownModel: {404, `{"error":{"code":404,"message":"models/gemini-3.5-flash is not found for API version v1beta, or is not supported for ` +
			`generateContent. Call ListModels to see the list of available models and their supported methods.","status":"NOT_FOUND"}}`},
	},
	"bedrock": {
		Forbidden: {403, `{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModelWithResponseStream on resource: ` +
			`arn:aws:bedrock:us-east-1::foundation-model/x because no identity-based policy allows it"}`},
		RateLimited:  {429, `{"message":"Too many tokens, please wait before trying again."}`},
		Overloaded:   {503, `{"message":"Bedrock is unable to process your request."}`},
		TooLong:      {400, `{"message":"The model returned the following errors: Input is too long for requested model."}`},
		UnknownModel: {400, `{"message":"The provided model identifier is invalid."}`},
	},
	"ollama": {
		WrongKey:     {401, `{"error":"unauthorized"}`},
		RateLimited:  {429, `{"error":"too many concurrent requests"}`},
		Overloaded:   {503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
		TooLong:      {400, `{"error":"input length exceeds the context length"}`},
		UnknownModel: {404, `{"error":"model 'qwen3:8b' not found"}`},
	},
}

// Refuses reports whether a vendor knows a reason.
func Refuses(vendor string, reason Reason) bool {
	_, ok := refusals[vendor][reason]
	return ok
}

// Refuse is a refusal in the vendor's own words.
func Refuse(vendor string, reason Reason) Answer {
	r := refusals[vendor][reason]
	return Answer{Raw: &Raw{Status: r.status, Type: "application/json", Body: strings.ReplaceAll(r.body, "KEY", Key)}}
}
