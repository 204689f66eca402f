package spec

import (
	"strings"
	"testing"
)

func TestSpec(t *testing.T) {
	t.Parallel()
	var s Spec
	for name, want := range map[string]Kind{
		"Page.navigate": Command, "Page.loadEventFired": Event, "Page.Viewport": Type, "Runtime.evaluate": Command, "Page.nothing": "",
	} {
		if k := s.Kind(name); k != want {
			t.Errorf("%s is %q", name, k)
		}
	}
	if len(s.items) < 1000 {
		t.Errorf("%d items", len(s.items))
	}
	for _, i := range s.items {
		if i.Kind != Command && i.Kind != Event && i.Kind != Type || !strings.Contains(i.Name, ".") || i.Signature == "" {
			t.Errorf("%+v", i)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	var s Spec
	for query, want := range map[string]string{
		"Page.reload": "Page.reload", "cookie set": "Network.setCookie", "domsnapshot capture": "DOMSnapshot.captureSnapshot", "capture screenshot": "Page.captureScreenshot",
	} {
		items, _ := s.Find(query, 5)
		if len(items) == 0 || items[0].Name != want {
			t.Errorf("%q: %+v", query, items)
		}
	}
	items, more := s.Find("Page.navigate", 5)
	if more || len(items) != 1 || !strings.HasPrefix(items[0].Signature, "{url: string, referrer?: string") || !strings.Contains(items[0].Signature, "-> {frameId: Page.FrameId") {
		t.Errorf("%+v", items)
	}
	if items, more := s.Find("Page", 5); len(items) != 5 || !more || !strings.HasPrefix(items[0].Name, "Page.") {
		t.Errorf("%+v", items)
	}
	if items, more := s.Find("no such thing", 5); len(items) != 0 || more {
		t.Errorf("%+v", items)
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		var s Spec
		s.load()
	}
}
