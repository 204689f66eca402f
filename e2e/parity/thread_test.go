package parity_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// told are the messages about the surroundings, each by the first lines of its parts.
func (q request) told() []string {
	var out []string
	for _, raw := range q.surroundings() {
		var parts []string
		for _, text := range textsOf(itemOf(raw).Content) {
			first, _, _ := strings.Cut(text, "\n")
			parts = append(parts, first)
		}
		out = append(out, strings.Join(parts, " + "))
	}
	return out
}

func (q request) surroundings() []json.RawMessage {
	var out []json.RawMessage
	for _, raw := range q.Input {
		if new(notation).word(raw) == "X" {
			out = append(out, raw)
		}
	}
	return out
}

// A thread whose process was killed in the middle of a call goes on: the call is told as one of unknown outcome.
func TestResumeAfterAKill(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	rig.Kill(t, run.Cmd.Process.Pid)
	run.Wait()
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 T U2")
	if got := s.requests()[1].output(1); !strings.Contains(got, "outcome unknown") {
		t.Errorf("the model is told %q", got)
	}
}

// What was said to a turn whose process was killed then is part of the conversation.
func TestSteeringBeforeAKill(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	s.door().say("two")
	rig.Kill(t, run.Cmd.Process.Pid)
	run.Wait()
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 U2 T U3")
}

// Another model goes on with the thread: it is told its instructions where they are others, and nothing before them changes.
// A compaction leaves no word of a change.
func TestModelSwitch(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("A")), reply(text("B"+long)), reply(text("C")),
		reply(text("SUMMARY")), reply(text("D")))
	s.turn("one")
	s.turn("two", "--model", "second")
	s.turn("three", "--model", "first")
	s.compact()
	s.turn("four")
	s.sees(
		"D X U1",
		"D X U1 A1 M U2",
		"D X U1 A1 M U2 A2 M U3",
		"D X U1 A1 M U2 A2 M U3 A3 P",
		"U1 U2 D X U3 S1 U4")
	var models []string
	for _, q := range s.requests() {
		models = append(models, q.Model)
	}
	if want := []string{"gpt-5.4", "gpt-5.4-mini", "gpt-5.4", "gpt-5.4", "gpt-5.4"}; !slices.Equal(models, want) {
		t.Errorf("the models that were asked: %q", models)
	}
}

// A thread that is compacted while a model with instructions of its own works on it is told them again.
func TestCompactionAfterAModelSwitch(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A")), reply(text("B"+long)), reply(text("SUMMARY")), reply(text("C")))
	s.turn("one")
	s.turn("two", "--model", "second")
	s.compact()
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 A1 M U2",
		"D X U1 A1 M U2 A2 P",
		"U1 M D X U2 S1 U3")
}

// A model that takes less than the one before, and too little: the one before writes the account.
func TestModelThatTakesLess(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A"+long)).counting(3500), reply(text("SUMMARY")), reply(text("B")))
	s.turn("one")
	s.turn("two", "--model", "small")
	s.sees(
		"D X U1",
		"D X U1 A1 P",
		"D X U1 S1 U2")
	var models []string
	for _, q := range s.requests() {
		models = append(models, q.Model)
	}
	if want := []string{"gpt-5.4", "gpt-5.4", "small-model"}; !slices.Equal(models, want) {
		t.Errorf("the models that were asked: %q", models)
	}
}

// Files for agents are read when a turn begins; what changed is told before the user's word.
func TestAgentsFileChanges(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A")), reply(text("B")), reply(text("C")), reply(text("D")))
	s.Write("AGENTS.md", "Be brief.\n")
	s.turn("one")
	s.turn("two")
	s.Write("AGENTS.md", "Be thorough.\n")
	s.turn("three")
	s.Remove("AGENTS.md")
	s.turn("four")
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 A2 X U3",
		"D X U1 A1 U2 A2 X U3 A3 X U4")
	agents := "# AGENTS.md instructions for " + s.Dir
	if got, want := s.requests()[3].told(), []string{agents + " + <environment_context>", agents, "# AGENTS.md instructions"}; !slices.Equal(got, want) {
		t.Errorf("told as %q, want %q", got, want)
	}
}

// A thread that goes on in another folder, and then with another model: what is different is told before the user's word, and
// once where the thread is compacted.
func TestFolderChanges(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A")), reply(text("B")), reply(text("C"+long)), reply(text("SUMMARY")), reply(text("D")))
	s.Write("AGENTS.md", "Be brief.\n")
	s.Write("other/file", "")
	other := filepath.Join(s.Dir, "other")
	s.turn("one")
	s.turn("two", "--cd", other)
	s.turn("three", "--cd", s.Dir, "--model", "second")
	s.compact()
	s.turn("four")
	s.sees(
		"D X U1",
		"D X U1 A1 X U2",
		"D X U1 A1 X U2 A2 M X U3",
		"D X U1 A1 X U2 A2 M X U3 A3 P",
		"U1 U2 M D X U3 S1 U4")
	all := s.requests()
	agents := "# AGENTS.md instructions for " + s.Dir + " + <environment_context>"
	if got, want := all[2].told(), []string{agents, "# AGENTS.md instructions + <environment_context>", agents}; !slices.Equal(got, want) {
		t.Errorf("told as %q, want %q", got, want)
	}
	if got, want := all[4].told(), []string{agents}; !slices.Equal(got, want) {
		t.Errorf("after the compaction told as %q, want %q", got, want)
	}
	// Of the surroundings only the folder is another one.
	environment := textsOf(itemOf(all[1].surroundings()[1]).Content)[1]
	if want := "<environment_context>\n  <cwd>" + other + "</cwd>\n</environment_context>"; environment != want {
		t.Errorf("told of the folder as %q, want %q", environment, want)
	}
}
