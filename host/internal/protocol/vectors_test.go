package protocol

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func specOf(t testing.TB, name string) *MethodSpec {
	for _, m := range Methods() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return nil
}

// TestRefusedParams has what the protocol says about parameters: which are refused, and what the error names.
func TestRefusedParams(t *testing.T) {
	for _, tt := range []struct{ name, method, params, want string }{
		{"no client info", "initialize", `{}`, "missing field `clientInfo`"},
		{"no client version", "initialize", `{"clientInfo":{"name":"x"}}`, "clientInfo: missing field `version`"},
		{"no parameters", "thread/read", ``, "missing field `params`"},
		{"null for parameters", "thread/read", ` null `, "missing field `params`"},
		{"positional parameters", "thread/read", `["id"]`, "invalid type: array, expected an object"},
		{"text for parameters", "thread/read", `"id"`, "invalid type: string `id`, expected an object"},
		{"broken JSON", "thread/read", `{"threadId":`, "invalid JSON"},
		{"no thread", "thread/read", `{}`, "missing field `threadId`"},
		{"a name in other case", "thread/read", `{"threadID":"x"}`, "missing field `threadId`"},
		{"a number for a thread", "thread/read", `{"threadId":7}`, "threadId: invalid type: integer `7`, expected a string"},
		{"null for a thread", "thread/read", `{"threadId":null}`, "threadId: invalid type: null, expected a string"},
		{"a string for a boolean", "thread/read", `{"threadId":"x","includeTurns":"yes"}`, "includeTurns: invalid type: string `yes`, expected a boolean"},
		{"unknown policy", "thread/start", `{"approvalPolicy":"sometimes"}`, "approvalPolicy: unknown variant `sometimes`, expected one of `untrusted`, `on-request`, `granular`, `never`"},
		{"granular without its settings", "thread/start", `{"approvalPolicy":"granular"}`, "approvalPolicy: invalid type: string `granular`, expected an object with the member `granular`"},
		{"policy with settings it has not", "thread/start", `{"approvalPolicy":{"never":{}}}`, "approvalPolicy: invalid type: object with the member `never`, expected the string `never`"},
		{"incomplete granular policy", "thread/start", `{"approvalPolicy":{"granular":{"rules":true,"mcp_elicitations":true}}}`, "approvalPolicy.granular: missing field `sandbox_approval`"},
		{"a policy with two members", "thread/start", `{"approvalPolicy":{"granular":{},"never":{}}}`, "approvalPolicy: invalid value: object with 2 members, expected a string or an object with one member"},
		{"unknown sandbox", "thread/start", `{"sandbox":"readOnly"}`, "sandbox: unknown variant `readOnly`, expected one of `read-only`, `workspace-write`, `danger-full-access`"},
		{"limit above 32 bits", "thread/loaded/list", `{"limit":4294967296}`, "limit: invalid value: integer `4294967296`, expected u32"},
		{"negative limit", "thread/loaded/list", `{"limit":-1}`, "limit: invalid value: integer `-1`, expected u32"},
		{"fraction for a limit", "thread/loaded/list", `{"limit":1.0}`, "limit: invalid type: floating-point number `1.0`, expected u32"},
		{"exponent for a limit", "thread/loaded/list", `{"limit":1e2}`, "limit: invalid type: floating-point number `1e2`, expected u32"},
		{"no input", "turn/start", `{"threadId":"x"}`, "missing field `input`"},
		{"null for input", "turn/start", `{"threadId":"x","input":null}`, "input: invalid type: null, expected an array"},
		{"input without a type", "turn/start", `{"threadId":"x","input":[{"text":"hi"}]}`, "input[0]: missing field `type`"},
		{"input of an unknown type", "turn/start", `{"threadId":"x","input":[{"type":"text","text":"a"},{"type":"video"}]}`, "input[1].type: unknown variant `video`, expected one of `image`, `localImage`, `mention`, `skill`, `text`"},
		{"input of a type that is a number", "turn/start", `{"threadId":"x","input":[{"type":1}]}`, "input[0].type: invalid type: integer `1`, expected a string"},
		{"text input without text", "turn/start", `{"threadId":"x","input":[{"type":"text"}]}`, "input[0]: missing field `text`"},
		{"context of an unknown kind", "turn/start", `{"threadId":"x","input":[],"additionalContext":{"k":{"value":"v","kind":"trusted"}}}`, "additionalContext.k.kind: unknown variant `trusted`, expected one of `untrusted`, `application`"},
		{"steer without a turn", "turn/steer", `{"threadId":"x","input":[]}`, "missing field `expectedTurnId`"},
		{"review of nothing", "review/start", `{"threadId":"x"}`, "missing field `target`"},
		{"detached review", "review/start", `{"threadId":"x","target":{"type":"uncommittedChanges"},"delivery":"detached"}`, "delivery: unknown variant `detached`, expected one of `inline`"},
		{"folder that is a number", "thread/list", `{"cwd":5}`, "cwd: invalid type: integer `5`, expected a string or an array"},
		{"folders one of which is a number", "thread/list", `{"cwd":["/a",5]}`, "cwd[1]: invalid type: integer `5`, expected a string"},
		{"anchor of an unknown type", "thread/items/list", `{"threadId":"x","cursor":{"type":"turn"}}`, "cursor.type: unknown variant `turn`, expected one of `item`"},
		{"revert without a turn", "thread/revert", `{"threadId":"x"}`, "missing field `beforeTurnId`"},
		{"tool without a schema", "thread/start", `{"dynamicTools":[{"type":"function","name":"n","description":"d"}]}`, "dynamicTools[0]: missing field `inputSchema`"},
		{"unknown login", "account/login/start", `{"type":"chatgpt"}`, "type: unknown variant `chatgpt`, expected one of `apiKey`, `oauth`"},
		{"command without words", "command/exec", `{}`, "missing field `command`"},
		{"word that is a number", "command/exec", `{"command":["a",1]}`, "command[1]: invalid type: integer `1`, expected a string"},
		{"fraction for a timeout", "command/exec", `{"command":["a"],"timeoutMs":0.5}`, "timeoutMs: invalid type: floating-point number `0.5`, expected i64"},
		{"size above 16 bits", "command/exec", `{"command":["a"],"size":{"rows":65536,"cols":1}}`, "size.rows: invalid value: integer `65536`, expected u16"},
		{"variable that is a number", "command/exec", `{"command":["a"],"env":{"A":null,"B":1}}`, "env.B: invalid type: integer `1`, expected a string"},
		{"unknown sandbox policy", "command/exec", `{"command":["a"],"sandboxPolicy":{"type":"read-only"}}`, "sandboxPolicy.type: unknown variant `read-only`, expected one of `dangerFullAccess`, `externalSandbox`, `readOnly`, `workspaceWrite`"},
		{"write without a process", "command/exec/write", `{"deltaBase64":""}`, "missing field `processId`"},
		{"no path", "fs/readFile", `{}`, "missing field `path`"},
		{"unknown strategy", "config/value/write", `{"keyPath":"a","value":1,"mergeStrategy":"append"}`, "mergeStrategy: unknown variant `append`, expected one of `replace`, `upsert`"},
		{"no value", "config/value/write", `{"keyPath":"a","mergeStrategy":"replace"}`, "missing field `value`"},
		{"parameters that are text", "config/mcpServer/reload", `"x"`, "invalid type: string `x`, expected an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := specOf(t, tt.method).Decode([]byte(tt.params))
			if _, ok := errors.AsType[*ParamsError](err); !ok || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAcceptedParams(t *testing.T) {
	for _, tt := range []struct{ name, method, params, want string }{
		{"unknown members", "initialize", `{"clientInfo":{"name":"x","version":"1","color":7},"capabilities":{"x":{}},"y":[1]}`, `{"clientInfo":{"name":"x","version":"1"},"capabilities":{}}`},
		{"unknown notifications", "initialize", `{"clientInfo":{"name":"","version":""},"capabilities":{"optOutNotificationMethods":["no/such"]}}`, `{"clientInfo":{"name":"","version":""},"capabilities":{"optOutNotificationMethods":["no/such"]}}`},
		{"no kinds of requests", "initialize", `{"clientInfo":{"name":"","version":""},"capabilities":{"serverRequestMethods":[]}}`, `{"clientInfo":{"name":"","version":""},"capabilities":{"serverRequestMethods":[]}}`},
		{"null for optional fields", "thread/list", `{"cursor":null,"limit":null,"cwd":null,"modelProviders":null,"useStateDbOnly":null}`, `{}`},
		{"empty list of providers", "thread/list", `{"modelProviders":[]}`, `{"modelProviders":[]}`},
		{"one folder", "thread/list", `{"cwd":"/a"}`, `{"cwd":"/a"}`},
		{"folders", "thread/list", `{"cwd":["/a","/b"]}`, `{"cwd":["/a","/b"]}`},
		{"limit 0", "thread/list", `{"limit":0}`, `{"limit":0}`},
		{"largest limit", "thread/list", `{"limit":4294967295}`, `{"limit":4294967295}`},
		{"granular policy", "thread/start", `{"approvalPolicy":{"granular":{"sandbox_approval":true,"rules":false,"mcp_elicitations":true}}}`, `{"approvalPolicy":{"granular":{"sandbox_approval":true,"rules":false,"mcp_elicitations":true}}}`},
		{"short sandbox policy", "turn/start", `{"threadId":"x","input":[],"sandboxPolicy":{"type":"workspaceWrite"}}`, `{"threadId":"x","input":[],"sandboxPolicy":{"type":"workspaceWrite","writableRoots":[],"networkAccess":false,"excludeTmpdirEnvVar":false,"excludeSlashTmp":false}}`},
		{"cleared tier", "turn/start", `{"threadId":"x","input":[],"serviceTier":null}`, `{"threadId":"x","input":[],"serviceTier":null}`},
		{"metadata: keep, clear, set", "thread/metadata/update", `{"threadId":"x","gitInfo":{"branch":null,"originUrl":"u"}}`, `{"threadId":"x","gitInfo":{"branch":null,"originUrl":"u"}}`},
		{"anchor", "thread/items/list", `{"threadId":"x","cursor":{"type":"item","itemId":"i"}}`, `{"threadId":"x","cursor":{"type":"item","itemId":"i"}}`},
		{"a repeated member", "thread/read", `{"threadId":7,"threadId":"x"}`, ""},
		{"a repeated member that is null", "thread/list", `{"cursor":"a","cursor":null}`, `{}`},
		{"key order of raw values", "turn/start", `{"threadId":"x","input":[],"outputSchema":{"z": 1, "a": [ 2 ]}}`, `{"threadId":"x","input":[],"outputSchema":{"z":1,"a":[2]}}`},
		{"no parameters for a method without any", "config/mcpServer/reload", ``, `{}`},
		{"null for a method without parameters", "config/mcpServer/reload", `null`, `{}`},
		{"an object for a method without parameters", "config/mcpServer/reload", `{"x":1}`, `{}`},
		{"removed variable", "command/exec", `{"command":["a"],"env":{"FOO":"1","HOME":null}}`, `{"command":["a"],"env":{"FOO":"1","HOME":null}}`},
		{"removed setting", "config/value/write", `{"keyPath":"a","value":null,"mergeStrategy":"replace"}`, `{"keyPath":"a","value":null,"mergeStrategy":"replace"}`},
		{"escapes", "thread/read", `{"thread\u0049d":"\ud83d\ude00\n\"\\"}`, `{"threadId":"😀\n\"\\"}`},
		{"space", "thread/read", " { \"threadId\" :\t\"x\" ,\n \"includeTurns\" : true } ", `{"threadId":"x","includeTurns":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := specOf(t, tt.method).Decode([]byte(tt.params))
			if tt.want == "" {
				if err == nil {
					t.Error("accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := Marshal(p)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestParamsErrorsNameTheNextStep(t *testing.T) {
	_, err := MethodThreadRead.Decode([]byte(`{}`))
	e, ok := errors.AsType[*ParamsError](err)
	if !ok || !strings.Contains(e.NextStep(), "ThreadReadParams") {
		t.Errorf("no next step: %v", err)
	}
}

func TestNeedsExperimental(t *testing.T) {
	for _, tt := range []struct{ method, params, want string }{
		{"collaborationMode/list", `{}`, "collaborationMode/list"},
		{"command/exec", `{"command":["a"],"permissionProfile":":workspace"}`, "command/exec.permissionProfile"},
		{"thread/search", `{"searchTerm":"x"}`, "thread/search"},
		{"thread/start", `{"dynamicTools":[]}`, "thread/start.dynamicTools"},
		{"thread/start", `{"dynamicTools":null,"allowProviderModelFallback":false,"permissions":null}`, ""},
		{"thread/start", `{"approvalPolicy":{"granular":{"sandbox_approval":true,"rules":true,"mcp_elicitations":true}}}`, "askForApproval.granular"},
		{"thread/start", `{"approvalPolicy":"never","model":"m"}`, ""},
		{"turn/start", `{"threadId":"x","input":[],"collaborationMode":{"mode":"plan","settings":{"model":"m"}}}`, "turn/start.collaborationMode"},
		{"thread/fork", `{"threadId":"x","beforeTurnId":"t"}`, "thread/fork.beforeTurnId"},
		{"thread/fork", `{"threadId":"x","lastTurnId":"t"}`, ""},
		{"thread/items/list", `{"threadId":"x","deferOutput":{"commandExecution":true}}`, "thread/items/list.deferOutput.commandExecution"},
		{"thread/metadata/update", `{"threadId":"x","projectId":"p"}`, "thread/metadata/update.projectId"},
		{"thread/loaded/list", `{}`, ""},
		{"thread/start", ``, ""},
		{"thread/start", `null`, ""},
		{"thread/start", `[{"dynamicTools":[]}]`, ""},
		{"thread/start", `{"dynamicTools":`, ""},
		{"thread/start", `{"approvalPolicy":{"sometimes":{}}}`, ""},
		{"thread/start", `{"approvalPolicy":7}`, ""},
		{"thread/items/list", `{"deferOutput":{"mcpToolCall":true},"threadId":7}`, "thread/items/list.deferOutput.mcpToolCall"},
	} {
		spec := specOf(t, tt.method)
		if got := NeedsExperimental(spec, []byte(tt.params)); got != tt.want {
			t.Errorf("%s %s needs %q, want %q", tt.method, tt.params, got, tt.want)
		}
	}
}

func TestMarshalStableLeavesExperimentalFieldsOut(t *testing.T) {
	p := CommandExecutionRequestApprovalParams{AdditionalPermissions: &PermissionProfile{}}
	with, err := Marshal(p)
	if err != nil || !strings.Contains(string(with), `"additionalPermissions":{}`) {
		t.Errorf("%s, %v", with, err)
	}
	without, err := MarshalStable(p)
	if err != nil || strings.Contains(string(without), "additionalPermissions") {
		t.Errorf("%s, %v", without, err)
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{`{"decision":"accept"}`, ""},
		{`{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["git","status"]}}}`, ""},
		{`{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"h","action":"deny"}}}}`, ""},
		{`{"decision":"yes"}`, "decision: unknown variant `yes`, expected one of `accept`, `acceptForSession`, `acceptWithExecpolicyAmendment`, `applyNetworkPolicyAmendment`, `decline`, `cancel`"},
		{`{}`, "missing field `decision`"},
		{`{"decision":{"acceptWithExecpolicyAmendment":{}}}`, "decision.acceptWithExecpolicyAmendment: missing field `execpolicy_amendment`"},
	} {
		r, err := RequestCommandExecutionApproval.Decode([]byte(tt.answer))
		if err != nil || tt.want != "" {
			if err == nil || err.Error() != tt.want {
				t.Errorf("%s: %v, want %s", tt.answer, err, tt.want)
			}
			continue
		}
		if got, err := Marshal(r); err != nil || string(got) != tt.answer {
			t.Errorf("got  %s, %v\nwant %s", got, err, tt.answer)
		}
	}
}

// What a newer program sends is kept as far as possible.
func TestUnmarshalIsLenient(t *testing.T) {
	var e ErrorInfo
	if err := e.UnmarshalJSON([]byte(`{"quotaGone":{"resetsAt":1}}`)); err != nil || e.Kind != "quotaGone" {
		t.Errorf("%+v, %v", e, err)
	}
	var i ThreadItem
	if err := i.UnmarshalJSON([]byte(`{"type":"commandExecution","id":"1","status":"paused"}`)); err != nil || i.Body.(CommandExecutionItem).Status != "paused" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := i.UnmarshalJSON([]byte(`{"type":"hologram","id":"1"}`)); err == nil || !strings.Contains(err.Error(), "unknown variant `hologram`") {
		t.Error(err)
	}
}

func TestNullableListsAreNull(t *testing.T) {
	got, err := Marshal(ThreadItem{DynamicToolCallItem{}})
	if err != nil || !strings.Contains(string(got), `"contentItems":null`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestZeroValuesAreComplete(t *testing.T) {
	got, err := Marshal(Thread{Status: ThreadStatus{IdleStatus{}}, Source: SessionSource{Kind: SourceSubAgent, SubAgent: &SubAgentSource{Kind: SubAgentReview}}})
	for _, want := range []string{`"turns":[]`, `"name":null`, `"projectId":null`, `"source":{"subAgent":"review"}`, `"status":{"type":"idle"}`} {
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("no %s in %s, %v", want, got, err)
		}
	}
}

func TestIsExperimentalNotification(t *testing.T) {
	for name, want := range map[string]bool{"thread/settings/updated": true, "turn/completed": false, "no/such": false} {
		if got := IsExperimentalNotification(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestMarshalLeavesOtherValuesToEncodingJSON(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{(*ThreadReadParams)(nil), `null`},
		{map[string]any{"item": ThreadItem{SleepItem{DurationMs: 1}}}, `{"item":{"type":"sleep","id":"","startedAtMs":null,"completedAtMs":null,"durationMs":1}}`},
		{struct{}{}, `{}`},
	} {
		if got, err := Marshal(tt.value); err != nil || string(got) != tt.want {
			t.Errorf("%v: %s, %v", tt.value, got, err)
		}
	}
}

// Every union and choice is a part of some message: its methods look up its shape.
func TestUnionsAreInTheTable(t *testing.T) {
	f, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for typ := range shapes() {
		known[typ.Name()] = true
	}
	method := regexp.MustCompile(`(?m)^func \((\w+)\) (?:variants\(\)|isChoice\(\)|forms\(\))`)
	n := 0
	for _, name := range f {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllSubmatch(b, -1) {
			n++
			if !known[string(m[1])] {
				t.Errorf("%s: no message contains a %s", name, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no unions were found")
	}
}
