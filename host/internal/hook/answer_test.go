package hook

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func done(context ...string) answer { return answer{status: event.HookDone, context: context} }

func reason(status event.HookStatus, text string) answer { return answer{status: status, reason: text} }

// What a process prints and how it ends, event by event. A failed answer's reason only has to hold the given words.
func TestAnswers(t *testing.T) {
	block, fail, stop := event.HookBlocked, event.HookFailed, event.HookStopped
	for _, tt := range []struct {
		name string
		ev   Event
		p    Printed
		want answer
	}{
		{"silence", PreToolUse, Printed{}, done()},
		{"status 2 with a word", PreToolUse, Printed{Code: 2, Stderr: "nope\n"}, reason(block, "nope")},
		{"status 2 in silence", PreToolUse, Printed{Code: 2}, reason(fail, "printed nothing")},
		{"status 1", PreToolUse, Printed{Code: 1, Stderr: "boom\nmore"}, reason(fail, "exit status 1: boom")},
		{"time is up", PreToolUse, Printed{Err: &timeoutError{minTimeout}}, reason(fail, "timed out after 1s")},
		{"no program", PreToolUse, Printed{Err: errors.New("it did not start")}, reason(fail, "did not start")},
		{"killed", PreToolUse, Printed{Code: 137}, reason(fail, "exit status 137")},
		{"bad JSON", PreToolUse, Printed{Stdout: "{bad json"}, reason(fail, "invalid JSON")},
		{"a list", PreToolUse, Printed{Stdout: `[1]`}, reason(fail, "invalid JSON")},
		{"plain text", PreToolUse, Printed{Stdout: "hello"}, done()},
		{"too much", PreToolUse, Printed{Stdout: "{", Cut: true}, reason(fail, "1 MiB")},
		{"ask", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"R"}}`}, answer{status: event.HookDone, ask: true, reason: "R"}},
		{"ask about other arguments", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":{"command":"x"}}}`},
			answer{status: event.HookDone, ask: true, input: []byte(`{"command":"x"}`)}},
		{"what nobody knows", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"perhaps"}}`}, reason(fail, "perhaps")},
		{"deny", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"R"}}`}, reason(block, "R")},
		{"deny without a reason", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"deny"}}`}, reason(block, "the hook gave no reason")},
		{"deny beside what is not supported", PreToolUse, Printed{Stdout: `{"continue":false,"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"R"}}`}, reason(block, "R")},
		{"deny, and status 2", PreToolUse, Printed{Code: 2, Stderr: "SE", Stdout: `{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"R"}}`}, reason(block, "SE")},
		{"block", PreToolUse, Printed{Stdout: `{"decision":"block","reason":"R"}`}, reason(block, "R")},
		{"approve", PreToolUse, Printed{Stdout: `{"decision":"approve"}`}, answer{status: event.HookDone, allow: true}},
		{"approve other arguments", PreToolUse, Printed{Stdout: `{"decision":"approve","hookSpecificOutput":{"updatedInput":{}}}`}, reason(fail, "approve")},
		{"approve, and ask", PreToolUse, Printed{Stdout: `{"decision":"approve","hookSpecificOutput":{"permissionDecision":"ask"}}`}, answer{status: event.HookDone, ask: true}},
		{"allow alone", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"allow"}}`}, answer{status: event.HookDone, allow: true}},
		{"allow other arguments", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"echo CHANGED"}}}`},
			answer{status: event.HookDone, input: []byte(`{"command":"echo CHANGED"}`)}},
		{"other arguments alone", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"updatedInput":{}}}`}, reason(fail, "needs")},
		{"continue: false", PreToolUse, Printed{Stdout: `{"continue":false,"stopReason":"S"}`}, reason(stop, "S")},
		{"continue: false beside a yes", PreToolUse, Printed{Stdout: `{"continue":false,"hookSpecificOutput":{"permissionDecision":"allow"}}`}, reason(stop, "the hook gave no reason")},
		{"what is about showing", PreToolUse, Printed{Stdout: `{"continue":true,"stopReason":"x","suppressOutput":true}`}, done()},
		{"context", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"C"}}`}, done("C")},
		{"another event's answer", PreToolUse, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"Stop"}}`}, reason(fail, "the event Stop")},
		{"a message for people", PreToolUse, Printed{Stdout: `{"systemMessage":"W"}`}, answer{status: event.HookDone, warning: "W"}},

		{"allow", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`}, answer{status: event.HookDone, allow: true}},
		{"deny M", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"M"}}}`}, reason(block, "M")},
		{"status 2 M", PermissionRequest, Printed{Code: 2, Stderr: "M"}, reason(block, "M")},
		{"permission, status 1", PermissionRequest, Printed{Code: 1}, reason(fail, "exit status 1")},
		{"permission, silence", PermissionRequest, Printed{}, done()},
		{"allow with other arguments", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{}}}}`}, reason(fail, "updatedInput")},
		{"allow with other rights", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedPermissions":[]}}}`}, reason(fail, "updatedPermissions")},
		{"allow and interrupt", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"allow","interrupt":true}}}`}, reason(fail, "interrupt")},
		{"neither", PermissionRequest, Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"perhaps"}}}`}, reason(fail, "perhaps")},

		{"feedback", PostToolUse, Printed{Stdout: `{"decision":"block","reason":"R"}`}, reason(block, "R")},
		{"feedback by status 2", PostToolUse, Printed{Code: 2, Stderr: "R"}, reason(block, "R")},
		{"no further", PostToolUse, Printed{Stdout: `{"continue":false,"stopReason":"S"}`}, reason(stop, "S")},
		{"context after", PostToolUse, Printed{Stdout: `{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"C"}}`}, done("C")},
		{"other output", PostToolUse, Printed{Stdout: `{"hookSpecificOutput":{"updatedMCPToolOutput":{}}}`}, reason(fail, "updatedMCPToolOutput")},

		{"plain text for the model", UserPromptSubmit, Printed{Stdout: " C \n"}, done("C")},
		{"prompt blocked", UserPromptSubmit, Printed{Stdout: `{"decision":"block","reason":"R"}`}, reason(block, "R")},
		{"prompt blocked by status 2", UserPromptSubmit, Printed{Code: 2, Stderr: "R"}, reason(block, "R")},
		{"prompt stopped", UserPromptSubmit, Printed{Stdout: `{"continue":false,"stopReason":"S"}`}, reason(stop, "S")},

		{"beginning", SessionStart, Printed{Stdout: "C"}, done("C")},
		{"beginning stopped", SessionStart, Printed{Stdout: `{"continue":false}`}, reason(stop, "")},
		{"beginning, status 2", SessionStart, Printed{Code: 2, Stderr: "x"}, reason(fail, "exit status 2")},

		{"go on", Stop, Printed{Stdout: `{"decision":"block","reason":"R"}`}, reason(block, "R")},
		{"go on, by status 2", Stop, Printed{Code: 2, Stderr: "R"}, reason(block, "R")},
		{"go on, with nothing", Stop, Printed{Stdout: `{"decision":"block"}`}, reason(block, "")},
		{"stop beats block", Stop, Printed{Stdout: `{"continue":false,"decision":"block","reason":"R","stopReason":"S"}`}, reason(stop, "S")},
		{"stop with text", Stop, Printed{Stdout: "done"}, reason(fail, "not JSON")},

		{"compaction stopped", PreCompact, Printed{Stdout: `{"continue":false,"stopReason":"S"}`}, reason(stop, "S")},
		{"compaction after", PostCompact, Printed{Stdout: `{}`}, done()},
		{"the end", SessionEnd, Printed{Stdout: `{"continue":false}`}, done()},
	} {
		t.Run(string(tt.ev)+" "+tt.name, func(t *testing.T) {
			got := read(tt.ev, tt.p)
			if tt.want.status == fail && got.status == fail && strings.Contains(got.reason, tt.want.reason) {
				return
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Whatever a hook prints, its answer is one of those that the stages know, and only a clear word allows something.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"a":1}}}`, `{"decision":"block","reason":"x"}`, "{bad", "text", "",
		`{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`, `{"continue":false}`,
	} {
		f.Add(s, "", 0)
		f.Add(s, "no", 2)
	}
	f.Fuzz(func(t *testing.T, stdout, stderr string, code int) {
		for _, ev := range Events {
			a := read(ev, Printed{Code: code, Stdout: stdout, Stderr: stderr})
			switch a.status {
			case event.HookDone, event.HookFailed, event.HookBlocked, event.HookStopped:
			default:
				t.Fatalf("%s: status %q", ev, a.status)
			}
			if (a.allow || a.input != nil) && (a.status != event.HookDone || code != 0 || !strings.Contains(stdout, `"`)) {
				t.Fatalf("%s: %q with status %d allows: %+v", ev, stdout, code, a)
			}
			if a.status == event.HookFailed && a.reason == "" {
				t.Fatalf("%s: failed without a reason", ev)
			}
		}
	})
}
