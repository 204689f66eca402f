package policy

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// How often the everyday commands were asked about at commit 2ec1963, before options, variables and builtins were followed and scripts
// bounded, and for how many of them "approve always" was offered when they asked to run outside of the sandbox. Asking more often,
// and offering less, makes people say yes without reading.
const (
	askedBefore   = 4
	offeredBefore = 248
	forbidBefore  = 5
	// Of these, pipes into xargs were offered a rule for their first part, which did not answer the question.
	offeredInVain = 3
)

func TestEverydayCommands(t *testing.T) {
	f, err := os.Open("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	var all, asked, offered, restricted int
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		all++
		effects := script(strings.ReplaceAll(lines.Text(), `\n`, "\n"))
		if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: effects, Trusted: installed}); d.Verdict != Run {
			asked++
			t.Logf("asked about: %s: %s", lines.Text(), d.Reason)
		}
		if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: effects, Trusted: installed, Escalation: &contract.Escalation{Unsandboxed: true, Justification: "x"}}); d.Offer != nil {
			offered++
			t.Logf("offered: %s", lines.Text())
		}
		if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: effects, Trusted: installed, Rules: set}); d.Verdict != Run {
			restricted++
			t.Logf("with a rule: %s: %s", lines.Text(), d.Reason)
		}
	}
	t.Logf("%d commands, %d asked about, %d with a rule that forbids another, %d with always", all, asked, restricted, offered)
	if all < 200 {
		t.Errorf("there are %d commands", all)
	}
	if asked > askedBefore {
		t.Errorf("%d are asked about, %d were", asked, askedBefore)
	}
	if offered < offeredBefore-offeredInVain {
		t.Errorf("\"approve always\" is offered for %d, it was for %d", offered, offeredBefore-offeredInVain)
	}
	if restricted > forbidBefore {
		t.Errorf("with a rule that forbids something else %d are asked about, %d were", restricted, forbidBefore)
	}
}
