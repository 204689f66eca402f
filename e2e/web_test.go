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

// Somebody types a task into the page, approves a command, and sees the diff. The code is gone from the address and works once.
func TestWeb(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	w := r.Web(webAsks...)
	p := rig.OpenPage(t, w.Link, 1280, 800)
	p.Shows("What shall be done?")
	p.Until(`location.hash === ""`)
	p.Shot("new.png")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Type("translate it")
	p.Key("Enter")
	p.Shows("translate it", "I look first.", "May this command run?", "to see")
	p.Until(`document.querySelector(".question button:enabled")`)
	p.Shot("question.png")
	p.Prefers("prefers-color-scheme", "dark")
	p.Shot("question-dark.png")
	p.Click("Yes, this time")
	p.Shows("echo looked", "hello.txt", "uno", "All done.", "1 file changed")
	p.Shot("done-dark.png")
	p.Prefers("prefers-color-scheme", "light")
	p.Shot("done.png")
	p.Size(390, 844)
	p.Shot("done-phone.png")
	p.Click("Threads")
	p.Shot("threads-phone.png")
	if b, err := os.ReadFile(filepath.Join(r.Dir, "hello.txt")); err != nil || string(b) != "uno\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	cleanPage(t, p, w)
	again := rig.OpenPage(t, w.Link, 800, 600)
	again.Shows("This page opens with a link that works once.")
}
