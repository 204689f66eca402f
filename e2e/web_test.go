package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// webAsks are the flags of a server that asks before commands leave the sandbox.
var webAsks = []string{"-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write"}

// cleanPage checks that no script of a page has failed, and that it has asked nobody but its server.
func cleanPage(t *testing.T, p *rig.Page, w *rig.Web) {
	t.Helper()
	for _, problem := range p.Problems() {
		t.Errorf("the page reports: %s", problem)
	}
	own, _, _ := strings.Cut(w.Link, "/#")
	for _, url := range p.Requests() {
		if !strings.HasPrefix(url, own+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:"+own) && url != "about:blank" {
			t.Errorf("the page has asked for %s", url)
		}
	}
}

// accessible saves a picture of the page, and checks it with axe-core, where web/node_modules has it.
func accessible(t *testing.T, p *rig.Page, name string) {
	t.Helper()
	p.Shot(name + ".png")
	axe, err := os.ReadFile("../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		return
	}
	p.Eval(string(axe) + "; 0")
	found := p.Eval(`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join(" | ")))`)
	if found != "[]" {
		t.Errorf("%s: %s", name, found)
	}
}

// Somebody types a task into the page, approves a command, and sees the diff. The code is gone from the address and works once.
func TestWeb(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	w := r.Web(webAsks...)
	p := rig.OpenPage(t, w.Link, 1280, 800)
	p.Shows("What shall be done?")
	p.Until(`location.hash === ""`)
	accessible(t, p, "new")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Type("translate it")
	p.Key("Enter")
	p.Shows("translate it", "I look first.", "May this command run?", "to see")
	p.Until(`document.querySelector(".question button:enabled")`)
	accessible(t, p, "question")
	p.Prefers("prefers-color-scheme", "dark")
	accessible(t, p, "question-dark")
	p.Until(`document.activeElement?.className === "question"`) // nothing is being written, so its keys work
	p.Key("y")
	p.Shows("echo looked", "hello.txt", "uno", "All done.", "1 file changed")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Click("1 file changed")
	p.Click("Side by side")
	accessible(t, p, "done-dark")
	p.Prefers("prefers-color-scheme", "light")
	accessible(t, p, "done")
	p.Size(390, 844)
	p.Shot("done-phone.png")
	p.Click("Threads")
	accessible(t, p, "threads-phone")
	if b, err := os.ReadFile(filepath.Join(r.Dir, "hello.txt")); err != nil || string(b) != "uno\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	cleanPage(t, p, w)
	again := rig.OpenPage(t, w.Link, 800, 600)
	again.Shows("This page opens with a link that works once.")
}
