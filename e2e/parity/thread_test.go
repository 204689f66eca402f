package parity_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// parts are the beginnings of the parts of item i of a request: what a message of the host's tells.
func (q request) parts(i int) []string {
	var out []string
	for _, text := range textsOf(itemOf(q.Input[i]).Content) {
		first, _, _ := strings.Cut(text, "\n")
		out = append(out, first)
	}
	return out
}

// itemsOf are the places of the items that the notation writes as word.
func (q request) itemsOf(word string) []int {
	var out []int
	for i, raw := range q.Input {
		if new(notation).layout([]json.RawMessage{raw}) == word {
			out = append(out, i)
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
	q := s.requests()[3]
	var told []string
	for _, i := range q.itemsOf("X") {
		told = append(told, strings.Join(q.parts(i), " + "))
	}
	agents := "# AGENTS.md instructions for " + s.Dir
	if want := []string{agents + " + <environment_context>", agents, "# AGENTS.md instructions"}; !slices.Equal(told, want) {
		t.Errorf("told as %q, want %q", told, want)
	}
}
