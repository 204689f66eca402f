package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func message(id, text string, s event.ItemStatus) event.Item {
	return event.Item{ID: event.ItemID(id), Type: event.ItemAgentMessage, Status: s, Text: text}
}

func shell(s event.ItemStatus) event.Item {
	return event.Item{ID: "i1", Call: "c1", Type: event.ItemCommand, Tool: "exec_command", Plugin: "shell", Command: "cat x", Cwd: "/w", Status: s}
}

func text(id, part string, at int) event.ItemDelta {
	return event.ItemDelta{Item: event.ItemID(id), Delta: event.DeltaText, Offset: int64(at), Text: part}
}

// The notifications of whole turns, in the order of codex's, of which the names are those of its recorded sequences.
func TestSequences(t *testing.T) {
	user := event.Item{ID: "u", Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: "hi"}
	begun := []string{`thread/status/changed {"type":"active","activeFlags":[]}`, "turn/started"}
	said := append(slices.Clone(begun), "item/started userMessage", "item/completed userMessage")
	idle := `thread/status/changed {"type":"idle"}`
	for _, tc := range []struct {
		name string
		run  func(*stream)
		want []string
	}{
		{"10.1 a plain answer with a thought", func(s *stream) {
			s.add(event.ItemCompleted{Item: user})
			thought := event.Item{ID: "r", Type: event.ItemReasoning, Status: event.StatusInProgress}
			s.add(event.ItemStarted{Item: thought}, event.ItemDelta{Item: "r", Delta: event.DeltaReasoning, Text: "h"},
				event.ItemDelta{Item: "r", Delta: event.DeltaReasoning, Offset: 1, Text: "m"})
			thought.Text, thought.Status = "hm", event.StatusCompleted
			s.add(event.ItemCompleted{Item: thought})
			s.add(event.ItemStarted{Item: message("m", "", event.StatusInProgress)}, text("m", "he", 0), text("m", "llo", 2),
				event.ItemCompleted{Item: message("m", "hello", event.StatusCompleted)}, event.UsageReported{})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(said), "item/started reasoning", "item/reasoning/summaryPartAdded", "item/reasoning/summaryTextDelta h", "item/reasoning/summaryTextDelta m",
			`item/completed reasoning "[hm]"`, "item/started agentMessage", "item/agentMessage/delta he", "item/agentMessage/delta llo",
			`item/completed agentMessage "hello"`, "thread/tokenUsage/updated", idle, "turn/completed completed summary 1")},
		{"reasoning that is not a summary", func(s *stream) {
			s.add(event.ItemCompleted{Item: user})
			thought := event.Item{ID: "r", Type: event.ItemReasoning, Status: event.StatusInProgress}
			s.add(event.ItemStarted{Item: thought}, event.ItemDelta{Item: "r", Delta: event.DeltaReasoning, Text: "h", Raw: true},
				event.ItemDelta{Item: "r", Delta: event.DeltaReasoning, Offset: 1, Text: "m", Raw: true})
			thought.Text, thought.Raw, thought.Status = "hm", true, event.StatusCompleted
			s.add(event.ItemCompleted{Item: thought})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(said), "item/started reasoning", "item/reasoning/textDelta h", "item/reasoning/textDelta m", `item/completed reasoning "[hm]"`,
			idle, "turn/completed completed notLoaded 0")},
		{"10.2 a command that fails", func(s *stream) {
			it := shell(event.StatusInProgress)
			s.add(event.ItemStarted{Item: it}, event.CallStarted{Call: "c1"}, event.ItemDelta{Item: "i1", Delta: event.DeltaOutput, Text: "one\n"})
			it.ExitCode, it.Status, it.Output = new(int32(3)), event.StatusFailed, "one\n"
			s.add(event.ItemCompleted{Item: it}, event.TurnDiff{Diff: "d"})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent", `item/commandExecution/outputDelta "one\n"`,
			"item/completed commandExecution failed agent", "turn/diff/updated", idle, "turn/completed completed notLoaded 0")},
		{"10.2 a command that outlives its turn", func(s *stream) {
			it := shell(event.StatusInProgress)
			s.add(event.ItemStarted{Item: it})
			it.Status, it.Session, it.Output = event.StatusCompleted, "7", "one\n"
			s.add(event.SessionOpened{Session: "7", Call: "c1"}, event.ItemCompleted{Item: it}, event.SessionOutput{Session: "7", Text: "two\n"})
			s.end(event.TurnCompleted)
			s.add(event.SessionExited{Session: "7", How: "exited", Output: "two\n"})
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent", `item/commandExecution/outputDelta "two\n"`,
			idle, "turn/completed completed notLoaded 0", "item/completed commandExecution completed unifiedExecStartup")},
		{"a command whose process ends before its call", func(s *stream) {
			it := shell(event.StatusInProgress)
			s.add(event.ItemStarted{Item: it}, event.SessionOpened{Session: "7", Call: "c1"}, event.SessionExited{Session: "7", How: "exited", ExitCode: 2})
			it.Status, it.Session = event.StatusCompleted, "7"
			s.add(event.ItemCompleted{Item: it})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent", "item/completed commandExecution failed unifiedExecStartup",
			idle, "turn/completed completed notLoaded 0")},
		{"10.3 an approval that is declined", func(s *stream) {
			it := shell(event.StatusInProgress)
			s.add(event.ItemStarted{Item: it}, event.QuestionAsked{ID: "q", About: event.QuestionApproval, Call: "c1"},
				event.QuestionAsked{ID: "q2", About: event.QuestionForm}, event.QuestionResolved{ID: "q"}, event.QuestionResolved{ID: "q2"})
			it.Status = event.StatusDeclined
			s.add(event.ItemCompleted{Item: it})
			s.end(event.TurnInterrupted)
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent",
			`thread/status/changed {"type":"active","activeFlags":["waitingOnApproval"]}`,
			`thread/status/changed {"type":"active","activeFlags":["waitingOnApproval","waitingOnUserInput"]}`,
			`thread/status/changed {"type":"active","activeFlags":["waitingOnUserInput"]}`, begun[0],
			"item/completed commandExecution declined agent", idle, "turn/completed interrupted notLoaded 0")},
		{"10.4 an interrupt while the model speaks and a command runs", func(s *stream) {
			s.add(event.ItemStarted{Item: shell(event.StatusInProgress)}, event.ItemStarted{Item: message("m", "", event.StatusInProgress)}, text("m", "par", 0),
				event.ItemCompleted{Item: message("m", "par", event.StatusAborted)}, event.QuestionAsked{ID: "q", About: event.QuestionApproval})
			s.end(event.TurnInterrupted)
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent", "item/started agentMessage", "item/agentMessage/delta par",
			`thread/status/changed {"type":"active","activeFlags":["waitingOnApproval"]}`,
			`item/completed agentMessage partial_answer "par"`, "item/completed commandExecution failed agent", idle, "turn/completed interrupted notLoaded 0")},
		{"10.5 an answer that is broken off, repeated, and fails", func(s *stream) {
			s.add(event.ItemStarted{Item: message("m", "", event.StatusInProgress)}, text("m", "par", 0),
				event.ItemCompleted{Item: message("m", "par", event.StatusAborted)}, event.StreamRetried{Attempt: 1, Max: 5, Cause: "reset", Status: 502},
				event.ItemStarted{Item: message("m2", "", event.StatusInProgress)}, text("m2", "part", 0),
				event.ItemCompleted{Item: message("m2", "part", event.StatusSuperseded)}, event.StreamRetried{Offline: true})
			s.end(event.TurnFailed)
		}, append(slices.Clone(begun), "item/started agentMessage", "item/agentMessage/delta par",
			`error true {"responseStreamDisconnected":{"httpStatusCode":502}} Reconnecting... 1/5`,
			`item/completed agentMessage partial_answer`, "item/started agentMessage", "item/agentMessage/delta part", "item/completed agentMessage partial_answer",
			`error true {"httpConnectionFailed":{"httpStatusCode":null}} Waiting for the provider, which can't be reached`,
			`thread/status/changed {"type":"systemError"}`, `error false "serverOverloaded" broken`, "turn/completed failed notLoaded 0")},
		{"10.6 a compaction", func(s *stream) {
			it := event.Item{ID: "k", Type: event.ItemCompaction, Status: event.StatusInProgress}
			s.add(event.ItemStarted{Item: it}, event.UsageReported{})
			it.Status = event.StatusCompleted
			s.add(event.ItemCompleted{Item: it})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started contextCompaction", "thread/tokenUsage/updated", "item/completed contextCompaction", idle, "turn/completed completed notLoaded 0")},
		{"10.6 a review", func(s *stream) {
			for _, it := range []event.Item{{ID: "e", Type: event.ItemEnteredReview}, {ID: "x", Type: event.ItemExitedReview}, message("m", "fine", "")} {
				s.add(event.ItemStarted{Item: it})
				it.Status = event.StatusCompleted
				s.add(event.ItemCompleted{Item: it})
			}
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started enteredReviewMode", "item/completed enteredReviewMode", "item/started exitedReviewMode", "item/completed exitedReviewMode",
			`item/started agentMessage "fine"`, `item/completed agentMessage "fine"`, idle, "turn/completed completed summary 1")},
		{"input that a hook blocks", func(s *stream) {
			blocked := user
			blocked.Status = event.StatusDeclined
			s.add(event.ItemCompleted{Item: blocked}, event.Notice{Level: "warning", Text: "a hook blocked your input.", Next: "Rephrase it."}, event.Notice{Level: "info", Text: "x"})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "warning a hook blocked your input; next: Rephrase it.", idle, "turn/completed completed notLoaded 0")},
		{"sources of tools", func(s *stream) {
			for _, state := range []string{"starting", "ready", "needs_login", "failed"} {
				b := event.SourceChanged{Plugin: "mcp", Source: "web", State: state}
				if state == "needs_login" || state == "failed" {
					b.Message = "because"
				}
				s.add(b)
			}
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun),
			`mcpServer/startupStatus/updated {"threadId":"th","name":"web","status":"starting","error":null,"failureReason":null}`,
			`mcpServer/startupStatus/updated {"threadId":"th","name":"web","status":"ready","error":null,"failureReason":null}`,
			`mcpServer/startupStatus/updated {"threadId":"th","name":"web","status":"failed","error":"because","failureReason":"reauthenticationRequired"}`,
			`mcpServer/startupStatus/updated {"threadId":"th","name":"web","status":"failed","error":"because","failureReason":null}`,
			idle, "turn/completed completed notLoaded 0")},
		{"a turn whose end the log lacks", func(s *stream) {
			s.add(event.ItemStarted{Item: message("m", "", event.StatusInProgress)})
			s.begin("t2")
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started agentMessage", "item/completed agentMessage partial_answer", idle, "turn/completed interrupted notLoaded 0",
			begun[0], "turn/started", idle, "turn/completed completed notLoaded 0")},
		{"a patch while it is written", func(s *stream) {
			written := func(call, part string, at int) event.ItemDelta {
				return event.ItemDelta{Item: event.ItemID(call), Delta: event.DeltaInput, Offset: int64(at), Text: part}
			}
			const head, line = "*** Begin Patch\n*** Add File: f\n", "+a line of the file\n"
			s.add(written("c1", head, 0))
			for i := range 10 {
				s.add(written("c1", line, len(head)+i*len(line)))
			}
			s.add(written("c2", "echo one\n", 0), event.UsageReported{}, written("c1", line, len(head)+10*len(line)))
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/fileChange/patchUpdated c1 0 lines", "item/fileChange/patchUpdated c1 4 lines", "item/fileChange/patchUpdated c1 8 lines",
			"thread/tokenUsage/updated", idle, "turn/completed completed notLoaded 0")},
		{"the thread's own events", func(s *stream) {
			s.end(event.TurnFailed)
			s.add(event.ThreadNamed{Name: "n"}, event.ThreadArchived{Archived: true}, event.ThreadArchived{}, event.ThreadReverted{From: 1})
		}, append(slices.Clone(begun), `thread/status/changed {"type":"systemError"}`, `error false "serverOverloaded" broken`, "turn/completed failed notLoaded 0",
			"thread/name/updated", "thread/archived", "thread/unarchived", `thread/status/changed {"type":"notLoaded"}`, idle, "thread/reverted")},
		{"hooks and reviews of calls", func(s *stream) {
			run := event.HookRun{ID: "h", Event: "PreToolUse", Hook: "k", Scope: "user"}
			s.add(event.ItemStarted{Item: shell(event.StatusInProgress)}, event.HookStarted{Run: run}, event.HookCompleted{Run: run, Status: event.HookBlocked, DurationMS: 5},
				event.ReviewStarted{ID: "v", Call: "c1", Action: json.RawMessage(`{"tool":"exec_command","cwd":"/w","effects":[{"type":"exec","data":{"argv":["ls"]}}]}`)},
				event.ReviewEnded{ID: "v", Call: "c1", Status: event.ReviewDenied, Risk: "high", Rationale: "no"})
			s.end(event.TurnCompleted)
		}, append(slices.Clone(begun), "item/started commandExecution inProgress agent", "hook/started", "hook/completed", "item/autoApprovalReview/started",
			"item/autoApprovalReview/completed", "guardianWarning", "item/completed commandExecution failed agent", idle, "turn/completed completed notLoaded 0")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStream()
			s.begin("t1")
			tc.run(s)
			if got, want := strings.Join(fold(t, s.events).log, "\n"), strings.Join(tc.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Each type of item in the protocol's form, when it has ended.
func TestItems(t *testing.T) {
	for _, tc := range []struct {
		name string
		item event.Item
		want string
	}{
		{"user message", event.Item{ID: "i", Type: event.ItemUserMessage, Text: "look", Images: []string{"a.png", strings.Repeat("0", 64)}},
			`{"type":"userMessage","id":"i",TIMES,"clientId":null,"content":[{"type":"text","text":"look"},{"type":"localImage","path":"a.png"},{"type":"image","url":"gantry-artifact:` + strings.Repeat("0", 64) + `"}]}`},
		{"mail", event.Item{ID: "i", Type: event.ItemMail, Text: "do it", Author: "/root"}, `{"type":"userMessage","id":"i",TIMES,"clientId":null,"content":[{"type":"text","text":"do it"}]}`},
		{"remark", event.Item{ID: "i", Type: event.ItemAgentMessage, Text: "on my way", Phase: "commentary"}, `{"type":"agentMessage","id":"i",TIMES,"text":"on my way","phase":"commentary"}`},
		{"thought", event.Item{ID: "i", Type: event.ItemReasoning, Text: "hm"}, `{"type":"reasoning","id":"i",TIMES,"summary":["hm"],"content":[]}`},
		{"thought itself", event.Item{ID: "i", Type: event.ItemReasoning, Text: "hm", Raw: true}, `{"type":"reasoning","id":"i",TIMES,"summary":[],"content":["hm"]}`},
		{"command", event.Item{ID: "i", Call: "c", Type: event.ItemCommand, Command: "cat x", Cwd: "/w", Output: "1\n", ExitCode: new(int32)},
			`{"type":"commandExecution","id":"c",TIMES,"command":"cat x","cwd":"/w","processId":null,"source":"agent","status":"completed","commandActions":[{"type":"read","command":"cat x","name":"x","path":"/w/x"}],"aggregatedOutput":"1\n","exitCode":0,"durationMs":1}`},
		{"command of a shell", event.Item{ID: "i", Call: "c", Type: event.ItemCommand, Command: "cat x; ls", Shell: []string{"/bin/bash", "-lc"}, Cwd: "/w", ExitCode: new(int32)}, `{"type":"commandExecution","id":"c",TIMES,"command":"/bin/bash -lc 'cat x; ls'","cwd":"/w","processId":null,"source":"agent","status":"completed","commandActions":[{"type":"read","command":"cat x","name":"x","path":"/w/x"},{"type":"listFiles","command":"ls","path":null}],"aggregatedOutput":"","exitCode":0,"durationMs":1}`},
		{"command of the user", event.Item{ID: "i", Call: "c", Type: event.ItemCommand, Plugin: event.PluginUser, Command: "make", Status: event.StatusAborted},
			`{"type":"commandExecution","id":"c",TIMES,"command":"make","cwd":"","processId":null,"source":"userShell","status":"failed","commandActions":[{"type":"unknown","command":"make"}],"aggregatedOutput":"","exitCode":null,"durationMs":1}`},
		{"input of a process", event.Item{ID: "i", Call: "c", Type: event.ItemCommand, Command: "make", Session: "7"},
			`{"type":"commandExecution","id":"c",TIMES,"command":"make","cwd":"","processId":"7","source":"unifiedExecInteraction","status":"completed","commandActions":[{"type":"unknown","command":"make"}],"aggregatedOutput":"","exitCode":null,"durationMs":1}`},
		{"code", event.Item{ID: "i", Call: "c", Type: event.ItemCode, Language: "python", Command: "cat x", Session: "7", Output: "1\n"},
			`{"type":"commandExecution","id":"c",TIMES,"command":"cat x","cwd":"","processId":null,"source":"agent","status":"completed","commandActions":[{"type":"unknown","command":"cat x"}],"aggregatedOutput":"1\n","exitCode":null,"durationMs":1}`},
		{"file change", event.Item{ID: "i", Call: "c", Type: event.ItemFileChange, Changes: []event.FileChange{
			{Path: "/w/a", Kind: "add", Diff: "+a"}, {Path: "/w/b", Kind: "delete"}, {Path: "/w/d", MovedFrom: "/w/c", Kind: "update"}, {Path: "/w/e", Kind: "update"}}},
			`{"type":"fileChange","id":"c",TIMES,"changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"+a"},{"path":"/w/b","kind":{"type":"delete"},"diff":""},{"path":"/w/c","kind":{"type":"update","move_path":"/w/d"},"diff":""},{"path":"/w/e","kind":{"type":"update","move_path":null},"diff":""}],"status":"completed"}`},
		{"MCP call", event.Item{ID: "i", Call: "c", Type: event.ItemMCPCall, Server: "s", Tool: "t", Arguments: json.RawMessage(`{"a":1}`), Output: "ok"},
			`{"type":"mcpToolCall","id":"c",TIMES,"server":"s","tool":"t","status":"completed","arguments":{"a":1},"result":{"content":[{"text":"ok","type":"text"}],"structuredContent":null,"_meta":null},"error":null,"durationMs":1}`},
		{"MCP call with its result", event.Item{ID: "i", Call: "c", Type: event.ItemMCPCall, Server: "s", Tool: "t", Output: "for the model",
			Result: json.RawMessage(`{"content":[{"type":"image","data":"gantry-artifact:12"}],"structuredContent":{"b":1,"a":2},"_meta":{"m":1}}`)},
			`{"type":"mcpToolCall","id":"c",TIMES,"server":"s","tool":"t","status":"completed","arguments":{},"result":{"content":[{"type":"image","data":"gantry-artifact:12"}],"structuredContent":{"b":1,"a":2},"_meta":{"m":1}},"error":null,"durationMs":1}`},
		{"MCP call whose result is an error", event.Item{ID: "i", Call: "c", Type: event.ItemMCPCall, Server: "s", Tool: "t", Output: "no", Status: event.StatusFailed, Result: json.RawMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`)},
			`{"type":"mcpToolCall","id":"c",TIMES,"server":"s","tool":"t","status":"failed","arguments":{},"result":{"content":[{"type":"text","text":"no"}],"structuredContent":null,"_meta":null},"error":null,"durationMs":1}`},
		{"MCP call without an answer", event.Item{ID: "i", Call: "c", Type: event.ItemMCPCall, Server: "s", Tool: "t", Output: "for the model", Status: event.StatusFailed, Error: "the server is gone"},
			`{"type":"mcpToolCall","id":"c",TIMES,"server":"s","tool":"t","status":"failed","arguments":{},"result":null,"error":{"message":"the server is gone"},"durationMs":1}`},
		{"MCP call that was declined", event.Item{ID: "i", Call: "c", Type: event.ItemMCPCall, Server: "s", Tool: "t", Output: "no", Status: event.StatusDeclined},
			`{"type":"mcpToolCall","id":"c",TIMES,"server":"s","tool":"t","status":"failed","arguments":{},"result":null,"error":{"message":"no"},"durationMs":1}`},
		{"tool", event.Item{ID: "i", Call: "c", Type: event.ItemTool, Tool: "n.t", Output: "ok"},
			`{"type":"dynamicToolCall","id":"c",TIMES,"namespace":"n","tool":"t","arguments":{},"status":"completed","contentItems":[{"type":"inputText","text":"ok"}],"success":true,"durationMs":1}`},
		{"tool of a client", event.Item{ID: "i", Call: "c", Type: event.ItemTool, Tool: "t", Artifacts: []event.Artifact{{SHA256: "12", MediaType: "image/png"}, {SHA256: "34", MediaType: "text/plain"}}},
			`{"type":"dynamicToolCall","id":"c",TIMES,"namespace":null,"tool":"t","arguments":{},"status":"completed","contentItems":[{"type":"inputImage","imageUrl":"gantry-artifact:12"}],"success":true,"durationMs":1}`},
		{"tool of a plugin with an image", event.Item{ID: "i", Call: "c", Type: event.ItemTool, Plugin: "p", Tool: "t", Artifacts: []event.Artifact{{SHA256: "12", MediaType: "image/png"}}},
			`{"type":"dynamicToolCall","id":"c",TIMES,"namespace":null,"tool":"t","arguments":{},"status":"completed","contentItems":[],"success":true,"durationMs":1}`},
		{"browser", event.Item{ID: "i", Call: "c", Type: event.ItemBrowser, Tool: "open", Status: event.StatusFailed},
			`{"type":"dynamicToolCall","id":"c",TIMES,"namespace":null,"tool":"open","arguments":{},"status":"failed","contentItems":[],"success":false,"durationMs":1}`},
		{"browser with a picture", event.Item{ID: "i", Call: "c", Type: event.ItemBrowser, Plugin: "p", Tool: "open", Tab: "a", Title: "Page", Artifacts: []event.Artifact{{SHA256: "12", MediaType: "image/jpeg"}}},
			`{"type":"dynamicToolCall","id":"c",TIMES,"namespace":null,"tool":"open","arguments":{},"status":"completed","contentItems":[{"type":"inputImage","imageUrl":"gantry-artifact:12"}],"success":true,"durationMs":1}`},
		{"web search", event.Item{ID: "i", Call: "c", Type: event.ItemWebSearch, Query: "q"}, `{"type":"webSearch","id":"c",TIMES,"query":"q"`},
		{"image", event.Item{ID: "i", Call: "c", Type: event.ItemImage, Path: "/w/a.png"}, `{"type":"imageView","id":"c",TIMES,"path":"/w/a.png"}`},
		{"compaction", event.Item{ID: "i", Type: event.ItemCompaction, Text: "compacted"}, `{"type":"contextCompaction","id":"i",TIMES}`},
		{"beginning of a review", event.Item{ID: "i", Type: event.ItemEnteredReview, Text: "changes"}, `{"type":"enteredReviewMode","id":"i",TIMES,"review":"changes"}`},
		{"end of a review", event.Item{ID: "i", Type: event.ItemExitedReview, Text: "changes", Output: "No findings."}, `{"type":"exitedReviewMode","id":"i",TIMES,"review":"No findings."}`},
		{"end of a review in an old log", event.Item{ID: "i", Type: event.ItemExitedReview, Text: "changes", Review: &event.Review{Explanation: "Fine."}}, `{"type":"exitedReviewMode","id":"i",TIMES,"review":"Fine."}`},
		{"item of a later version", event.Item{ID: "i", Type: "hologram"},
			`{"type":"dynamicToolCall","id":"i",TIMES,"namespace":null,"tool":"","arguments":{},"status":"completed","contentItems":[],"success":true,"durationMs":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStream()
			s.begin("t")
			begun, done := tc.item, tc.item
			begun.Status, begun.ExitCode, begun.Output = event.StatusInProgress, nil, ""
			if done.Status == "" {
				done.Status = event.StatusCompleted
			}
			s.add(event.ItemStarted{Item: begun}, event.ItemCompleted{Item: done})
			it := fold(t, s.events).turns[0].Items[0]
			want := strings.Replace(tc.want, "TIMES", `"startedAtMs":1700000000002,"completedAtMs":1700000000003`, 1)
			if got := compact(it); !strings.HasPrefix(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	for code, want := range map[string]string{
		llm.ErrInvalidRequest.String(): `"badRequest"`, llm.ErrContextOverflow.String(): `"contextWindowExceeded"`,
		llm.ErrPayloadTooLarge.String(): `"contextWindowExceeded"`, llm.ErrNoRoute.String(): `"modelNotFound"`,
		llm.ErrAuthentication.String(): `"unauthorized"`, llm.ErrRateLimit.String(): `"rateLimitExceeded"`,
		llm.ErrQuotaExceeded.String(): `"usageLimitExceeded"`, llm.ErrProviderInternal.String(): `"internalServerError"`,
		llm.ErrOverloaded.String(): `"serverOverloaded"`, llm.ErrTransport.String(): `{"httpConnectionFailed":{"httpStatusCode":503}}`,
		llm.ErrIncompleteStream.String(): `{"responseStreamDisconnected":{"httpStatusCode":503}}`, llm.ErrInvalidOutput.String(): `"other"`,
		llm.ErrContentPolicy.String(): `"other"`, llm.ErrUnknown.String(): `"other"`, "budget": `"sessionBudgetExceeded"`, "internal": `"other"`,
	} {
		s := newStream()
		s.begin("t")
		s.add(event.TurnEnded{Status: event.TurnFailed, Error: &event.Problem{Message: "m", Code: code, Next: "n", Status: 503}})
		e := fold(t, s.events).turns[0].Error
		if e == nil || compact(e.CodexErrorInfo) != want || e.Next == nil || *e.Next != "n" || e.Provider == nil || *e.Provider != "p" {
			t.Errorf("%s: %s, want %s", code, compact(e), want)
		}
	}
}

// Who resumes the thread while an item is open gets its text so far, and the rest as deltas without a repetition.
func TestOpen(t *testing.T) {
	s := newStream()
	s.begin("t")
	s.add(event.ItemStarted{Item: message("m", "", event.StatusInProgress)}, text("m", "hel", 0), text("m", "hello", 0), text("m", "lo", 3),
		event.ItemStarted{Item: shell(event.StatusInProgress)})
	long := strings.Repeat("ö", 40<<10)
	s.add(event.ItemDelta{Item: "i1", Delta: event.DeltaOutput, Text: long}, event.ItemDelta{Item: "i1", Delta: event.DeltaOutput, Offset: int64(len(long)), Text: "end"})
	var f transcript.Fold
	var offset uint64
	for _, e := range s.events {
		for _, c := range f.Apply(e) {
			if d, ok := c.Params.(protocol.CommandExecutionOutputDeltaNotification); ok {
				offset = *d.Offset
			}
		}
	}
	if f.Turn() == nil || f.Turn().ID != "t" || offset != uint64(len(long)) {
		t.Errorf("turn %v, offset %d", f.Turn(), offset)
	}
	open := f.Open()
	if len(open) != 2 {
		t.Fatalf("%d open items", len(open))
	}
	if m := open[0].Body.(protocol.AgentMessageItem); m.Text != "hello" || m.CompletedAtMs != nil {
		t.Errorf("message %+v", m)
	}
	if c := open[1].Body.(protocol.CommandExecutionItem); len(*c.AggregatedOutput) != 64<<10 || c.Status != protocol.ItemInProgress {
		t.Errorf("command %s with %d bytes of output", c.Status, len(*c.AggregatedOutput))
	}
}

// What was typed into a process is told with the command that started it.
func TestTerminalInteraction(t *testing.T) {
	s := newStream()
	s.begin("t")
	it := shell(event.StatusInProgress)
	s.add(event.ItemStarted{Item: it})
	it.Session, it.Status = "7", event.StatusCompleted
	s.add(event.ItemCompleted{Item: it})
	in := event.Item{ID: "i2", Call: "c2", Type: event.ItemCommand, Command: "cat x", Session: "7"}
	s.add(event.ItemStarted{Item: in}, event.CallStarted{Call: "c2", Attempt: 1, Effects: []event.Effect{{Type: "session_input", Data: json.RawMessage(`{"sessionId":"7","text":"y\n"}`)}}})
	var f transcript.Fold
	var got []string
	for _, e := range s.events {
		for _, c := range f.Apply(e) {
			if p, ok := c.Params.(protocol.TerminalInteractionNotification); ok {
				got = append(got, fmt.Sprintf("%s %s %q", p.ItemID, p.ProcessID, p.Stdin))
			}
		}
	}
	if want := []string{`c1 7 "y\n"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUsage(t *testing.T) {
	s := newStream()
	s.begin("t")
	s.add(event.UsageReported{Usage: llm.Usage{Input: new(int64(8)), Output: new(int64(2))}, Total: event.Tokens{Input: 8, Output: 2, Total: 10}, ContextWindow: 100},
		event.UsageReported{Call: "c", Usage: llm.Usage{Total: new(int64(5))}, Total: event.Tokens{Total: 15}})
	c := fold(t, s.events)
	if c.usage == nil || c.usage.Last.TotalTokens != 10 || c.usage.Total.TotalTokens != 15 || *c.usage.ModelContextWindow != 100 {
		t.Errorf("usage %s", compact(c.usage))
	}
}

func TestTurns(t *testing.T) {
	s := newStream()
	s.begin("t1")
	s.add(event.ItemCompleted{Item: event.Item{ID: "u", Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: "hi"}},
		event.ItemStarted{Item: message("m1", "", event.StatusInProgress)}, event.ItemCompleted{Item: message("m1", "one", event.StatusCompleted)},
		event.ItemStarted{Item: shell(event.StatusInProgress)}, event.ItemCompleted{Item: shell(event.StatusCompleted)},
		event.ItemStarted{Item: message("m2", "", event.StatusInProgress)}, event.ItemCompleted{Item: message("m2", "two", event.StatusCompleted)},
		event.ItemStarted{Item: message("m3", "", event.StatusInProgress)}, event.ItemCompleted{Item: message("m3", "", event.StatusAborted)})
	s.end(event.TurnFailed)
	s.begin("t2")
	s.add(event.ItemStarted{Item: shell(event.StatusInProgress)}, event.ItemStarted{Item: message("m4", "", event.StatusInProgress)})
	for view, want := range map[protocol.TurnItemsView]string{
		protocol.ItemsFull: "userMessage agentMessage commandExecution agentMessage | commandExecution agentMessage", protocol.ItemsSummary: "userMessage agentMessage | agentMessage",
		protocol.ItemsNotLoaded: " | ",
	} {
		turns, err := transcript.Turns(durable(s.events), view)
		if err != nil || len(turns) != 2 {
			t.Fatalf("%d turns, %v", len(turns), err)
		}
		var got []string
		for _, turn := range turns {
			var types []string
			for _, it := range turn.Items {
				types = append(types, strings.Fields(short(it))[0])
			}
			got = append(got, strings.Join(types, " "))
			if turn.ItemsView != view {
				t.Errorf("view %s, want %s", turn.ItemsView, view)
			}
		}
		if view == protocol.ItemsSummary && textOf(turns[0].Items[1]) != "two" {
			t.Errorf("summary with %s, want the last message that has a text", compact(turns[0].Items[1]))
		}
		if strings.Join(got, " | ") != want {
			t.Errorf("%s: %q, want %q", view, got, want)
		}
	}
	turns, err := transcript.Turns(durable(s.events), protocol.ItemsFull)
	if err != nil {
		t.Fatal(err)
	}
	if turns[1].Status != protocol.TurnInProgress {
		t.Errorf("status %s", turns[1].Status)
	}
	transcript.Stopped(turns)
	if turns[0].Status != protocol.TurnFailed || turns[1].Status != protocol.TurnInterrupted || len(turns[1].Items) != 1 || short(turns[1].Items[0]) != "commandExecution failed agent" {
		t.Errorf("stopped: %s", pretty(turns[1]))
	}
}

// Events of later versions are skipped, and damage is not.
func TestTurnsOfAnUnreadableLog(t *testing.T) {
	s := newStream()
	s.begin("t1")
	s.end(event.TurnCompleted)
	damage := errors.New("damaged")
	log := func(unreadable event.Event) func(func(event.Event, error) bool) {
		return func(yield func(event.Event, error) bool) {
			_ = yield(s.events[0], nil) && yield(unreadable, damage) && yield(s.events[1], nil)
		}
	}
	if turns, err := transcript.Turns(log(event.Event{Seq: 2, Body: event.Unknown{Name: "later"}}), protocol.ItemsFull); err != nil || len(turns) != 1 || turns[0].Status != protocol.TurnCompleted {
		t.Errorf("an event of a later version: %+v, %v", turns, err)
	}
	if _, err := transcript.Turns(log(event.Event{}), protocol.ItemsFull); !errors.Is(err, damage) {
		t.Errorf("damage: %v", err)
	}
}

func BenchmarkDeltas(b *testing.B) {
	s := newStream()
	s.begin("t")
	s.add(event.ItemStarted{Item: message("m", "", event.StatusInProgress)})
	for i := range 5000 {
		s.add(text("m", "some text ", i*10))
	}
	b.ReportAllocs()
	for b.Loop() {
		var f transcript.Fold
		for _, e := range s.events {
			f.Apply(e)
		}
	}
}

func BenchmarkTurns(b *testing.B) {
	s := newStream()
	for n := range 1000 {
		s.begin(fmt.Sprint("t", n))
		for i := range 24 {
			it := shell(event.StatusInProgress)
			it.ID, it.Call = event.ItemID(fmt.Sprint("i", n, ".", i)), event.CallID(fmt.Sprint("c", n, ".", i))
			s.add(event.ItemStarted{Item: it}, event.CallStarted{Call: it.Call}, event.CallEnded{Call: it.Call})
			it.Status, it.Output = event.StatusCompleted, "output"
			s.add(event.ItemCompleted{Item: it})
		}
		s.add(event.HistoryAdded{}, event.HistoryAdded{})
		s.end(event.TurnCompleted)
	}
	b.ReportMetric(float64(len(s.events)), "events")
	b.ReportAllocs()
	for b.Loop() {
		if turns, err := transcript.Turns(durable(s.events), protocol.ItemsFull); err != nil || len(turns) != 1000 {
			b.Fatal(len(turns), err)
		}
	}
}

// What a session prints after its call is part of its command's output, live and from the log.
func TestOutputOfASession(t *testing.T) {
	s := newStream()
	s.begin("t")
	it := shell(event.StatusInProgress)
	s.add(event.ItemStarted{Item: it})
	it.Session, it.Status, it.Output = "7", event.StatusCompleted, "one\n"
	s.add(event.ItemCompleted{Item: it}, event.SessionOutput{Session: "7", Text: "two\n"})
	s.end(event.TurnCompleted)
	output := func(turns []protocol.Turn) string {
		return fmt.Sprintf("%q", *turns[0].Items[0].Body.(protocol.CommandExecutionItem).AggregatedOutput)
	}
	var f transcript.Fold
	for _, e := range s.events {
		f.Apply(e)
	}
	running := turnsOf(t, s.events)
	transcript.WithOpen(running, f.Open())
	s.add(event.SessionExited{Session: "7", How: "lost", Output: "two\n"})
	turns := turnsOf(t, s.events)
	if a, b := output(running), output(turns); a != b || a != `"one\ntwo\n"` {
		t.Errorf("output while it runs %s, and then %s", a, b)
	}
	if c := turns[0].Items[0].Body.(protocol.CommandExecutionItem); *c.ExitCode != -1 || c.Status != protocol.ItemFailed {
		t.Errorf("lost: %s", compact(c))
	}
}

// Reverted turns are gone, and so are their commands that still run.
func TestRevert(t *testing.T) {
	s := newStream()
	s.begin("t1")
	s.end(event.TurnCompleted)
	s.begin("t2")
	from := s.seq
	it := shell(event.StatusInProgress)
	s.add(event.ItemStarted{Item: it})
	it.Session, it.Status = "7", event.StatusCompleted
	s.add(event.ItemCompleted{Item: it})
	s.end(event.TurnCompleted)
	s.add(event.ThreadReverted{From: from, Thread: event.Checkpoint{Usage: event.Tokens{Total: 3}}}, event.SessionExited{Session: "7", How: "exited"})
	s.begin("t3")
	s.end(event.TurnCompleted)
	var got []string
	for _, turn := range turnsOf(t, s.events) {
		got = append(got, turn.ID)
	}
	if want := []string{"t1", "t3"}; !slices.Equal(got, want) {
		t.Errorf("turns %q, want %q", got, want)
	}
	var f transcript.Fold
	for _, e := range s.events {
		f.Apply(e)
	}
	if len(f.Open()) > 0 || f.Usage() == nil || f.Usage().Total.TotalTokens != 3 {
		t.Errorf("open %v, usage %+v", f.Open(), f.Usage())
	}
}
