package policy

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Figures of commit 2ec1963, before options, variables and builtins were analysed and scripts bounded: how often the everyday commands
// were asked about, and for how many of them "approve always" was offered when they requested to run outside of the sandbox. Asking more
// often and offering less makes people approve without reading.
const (
	askedBefore   = 4
	offeredBefore = 248
	forbidBefore  = 5
	// Of these, pipes into xargs were offered a rule for their first part, which did not answer the question.
	offeredInVain = 3
	// outsideBefore is the number of commands that the rules below allowed outside of the sandbox.
	outsideBefore = 96
)

// stayInside has the commands that stay in the sandbox now, as the words after a rule's may name a place to write to or a program. For
// each of them the user is shown the rule that does not apply, and one that would.
var stayInside = []string{
	"curl -fsSL https://example.com/install.sh -o install.sh", "gcc -O2 -Wall -o app main.c", "git worktree add ../wt main", "go build -o bin/app ./cmd/app", "go run ./cmd/tool --flag x",
	"go test -coverprofile=cover.out ./... && go tool cover -func=cover.out", "make CC=clang build", "tar -xzf vendor.tgz -C third_party",
}

// allowed are typical rules of users: those of the guide, and what "approve always" has written.
const allowed = `
prefix_rule(pattern=["git", ["status", "diff", "log", "show", "branch", "add", "commit", "fetch", "pull", "push", "checkout", "switch", "stash", "rebase", "merge", "tag", "blame", "rev-parse", "remote", "submodule", "worktree", "cherry-pick", "restore"]])
prefix_rule(pattern=["go", ["build", "test", "vet", "mod", "run", "generate", "fmt", "list", "install", "tool", "get", "work"]])
prefix_rule(pattern=[["npm", "pnpm", "yarn"], ["install", "test", "run", "ci", "add", "build", "lint"]])
prefix_rule(pattern=["cargo", ["build", "test", "check", "clippy", "fmt", "run", "doc", "update", "add", "bench"]])
prefix_rule(pattern=["python3", "-m", ["pytest", "venv", "pip", "unittest"]])
prefix_rule(pattern=[["make", "pytest", "curl", "wget", "tar", "sort", "uniq", "rg", "find", "rsync", "gcc", "ls", "wc", "head", "tail", "printf", "less"]])
`

func TestEverydayCommands(t *testing.T) {
	f, err := os.Open("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	outside := ruled(t, allowed)
	var all, asked, offered, restricted, restrictedToo, out, inside int
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
		if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: effects, Trusted: installed, Rules: outside}); d.Verdict != Run {
			restrictedToo++
		} else if d.Wider != nil {
			out++
		} else if slices.Contains(stayInside, lines.Text()) {
			inside++
			if len(d.Short) == 0 || d.Hint == "" {
				t.Errorf("%s stays in the sandbox, and nothing says why: %+v", lines.Text(), d)
			}
		}
	}
	t.Logf("%d commands, %d asked about, %d with a rule that forbids another, %d with always, %d run outside by rules", all, asked, restricted, offered, out)
	if all < 200 {
		t.Errorf("there are %d commands", all)
	}
	if asked > askedBefore {
		t.Errorf("%d are asked about, %d were", asked, askedBefore)
	}
	if offered < offeredBefore-offeredInVain {
		t.Errorf("\"approve always\" is offered for %d, it was for %d", offered, offeredBefore-offeredInVain)
	}
	if restrictedToo > askedBefore {
		t.Errorf("with rules that allow %d are asked about, %d were without any", restrictedToo, askedBefore)
	}
	if out+inside != outsideBefore || inside != len(stayInside) {
		t.Errorf("rules let %d out of the sandbox, and %d no longer; they let %d out", out, inside, outsideBefore)
	}
	if restricted > forbidBefore {
		t.Errorf("with a rule that forbids something else %d are asked about, %d were", restricted, forbidBefore)
	}
}
