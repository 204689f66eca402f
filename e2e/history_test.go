package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// pages are the parts of a page of turns, items, events or threads that the tests look at.
type pages struct {
	Data []struct {
		ID, TurnID, Kind   string
		ItemsView, Snippet string
		Status             any
		Seq                uint64
		Items              []map[string]any
		Item               struct{ ID, Type, Text, AggregatedOutput string }
		OutputDeferred     bool
		Thread             struct{ ID string }
		ItemID, TurnCursor string
		SnippetMatchRange  struct{ Start, End int }
		CompletedAt        *int64
	}
	NextCursor, BackwardsCursor *string
}

// ids returns the IDs of the entries, with names instead of those that have one.
func (p pages) ids(names map[string]string) string {
	var out []string
	for _, e := range p.Data {
		id := e.ID
		if n := names[id]; n != "" {
			id = n
		}
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

func page(t *testing.T, c *rig.Client, method, thread string, params map[string]any) (p pages) {
	t.Helper()
	all := map[string]any{"threadId": thread}
	for k, v := range params {
		all[k] = v
	}
	c.Call(method, all, &p)
	return p
}

// turnsNamed submits texts, waits for their turns, and returns the names t1, t2 and so on by their IDs, and their IDs.
func turnsNamed(t *testing.T, c *rig.Client, thread string, texts ...string) (names map[string]string, ids []string) {
	t.Helper()
	names = map[string]string{}
	for i, text := range texts {
		id := submit(t, c, thread, text)
		c.Notified("turn/completed")
		names[id] = fmt.Sprint("t", i+1)
		ids = append(ids, id)
	}
	return names, ids
}

const counting = "[[step]]\ntimes = -1\ndo = [{ text = \"answer ${request}\" }]\n"

// Turns and items are read in pages, in both directions.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, counting)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	if p := page(t, c, "thread/turns/list", thread, nil); len(p.Data) != 0 || p.NextCursor != nil || p.BackwardsCursor != nil {
		t.Errorf("no turn: %+v", p)
	}
	names, ids := turnsNamed(t, c, thread, "one", "MOCK:shell second", "three")
	list := func(params map[string]any) pages {
		t.Helper()
		return page(t, c, "thread/turns/list", thread, params)
	}
	first := list(map[string]any{"limit": 2})
	if got := first.ids(names); got != "t3 t2" || first.NextCursor == nil || first.Data[0].ItemsView != "summary" || len(first.Data[0].Items) != 2 || first.Data[0].Status != "completed" {
		t.Fatalf("first page %s: %+v", got, first)
	}
	second := list(map[string]any{"limit": 2, "cursor": *first.NextCursor})
	if got := second.ids(names); got != "t1" || second.NextCursor != nil {
		t.Errorf("second page %s: %+v", got, second)
	}
	for _, test := range []struct {
		params map[string]any
		want   string
	}{
		{map[string]any{"cursor": second.BackwardsCursor, "sortDirection": "asc"}, "t1 t2 t3"},
		{map[string]any{"cursor": first.BackwardsCursor, "sortDirection": "asc"}, "t3"},
		{map[string]any{"limit": 0}, "t3"},
		{map[string]any{"sortDirection": "asc", "limit": 2}, "t1 t2"},
	} {
		if got := list(test.params).ids(names); got != test.want {
			t.Errorf("%v: %s, want %s", test.params, got, test.want)
		}
	}
	for view, want := range map[string]int{"notLoaded": 0, "summary": 2, "full": 2} {
		if p := list(map[string]any{"itemsView": view}); p.Data[0].ItemsView != view || len(p.Data[0].Items) != want {
			t.Errorf("view %s: %+v", view, p.Data[0])
		}
	}
	items := page(t, c, "thread/items/list", thread, nil)
	var kinds, reversed []string
	for _, e := range items.Data {
		kinds = append(kinds, e.Item.Type+" of "+names[e.TurnID])
	}
	if want := "userMessage of t1, agentMessage of t1, userMessage of t2, agentMessage of t2, userMessage of t3, agentMessage of t3"; strings.Join(kinds, ", ") != want {
		t.Errorf("items: %s", kinds)
	}
	for _, e := range page(t, c, "thread/items/list", thread, map[string]any{"sortDirection": "desc"}).Data {
		reversed = append(reversed, e.Item.Type+" of "+names[e.TurnID])
	}
	if slices.Reverse(reversed); !slices.Equal(kinds, reversed) {
		t.Errorf("descending, reversed: %s", reversed)
	}
	anchored := page(t, c, "thread/items/list", thread, map[string]any{"turnId": ids[1], "cursor": map[string]any{"type": "item", "itemId": items.Data[3].Item.ID}})
	if len(anchored.Data) != 1 || anchored.Data[0].Item.ID != items.Data[3].Item.ID {
		t.Errorf("from an item: %+v", anchored)
	}
	// Occurrences, and the turn of one.
	o := page(t, c, "thread/searchOccurrences", thread, map[string]any{"searchTerm": "second"})
	if len(o.Data) != 1 || o.Data[0].Snippet != "MOCK:shell second" || o.Data[0].SnippetMatchRange.Start != 11 || o.Data[0].SnippetMatchRange.End != 17 ||
		o.Data[0].ItemID != items.Data[2].Item.ID || list(map[string]any{"cursor": o.Data[0].TurnCursor}).ids(names) != "t2 t1" {
		t.Errorf("occurrences: %+v", o)
	}
	// The log.
	log := page(t, c, "gantry/thread/events", thread, map[string]any{"limit": 2})
	if len(log.Data) != 2 || log.Data[0].Kind != "thread.started" || log.Data[0].Seq != 1 || log.NextCursor == nil {
		t.Errorf("events: %+v", log)
	}
	if p := page(t, c, "gantry/thread/events", thread, map[string]any{"beforeSeq": 3}); len(p.Data) != 2 || p.Data[0].Seq != 2 || p.NextCursor != nil {
		t.Errorf("events before the third: %+v", p)
	}
	for method, params := range map[string]map[string]any{
		"thread/turns/list": {"cursor": "zzz"}, "thread/items/list": {"cursor": *first.NextCursor}, "thread/list": {"cursor": "zzz"},
		"thread/searchOccurrences": {"cursor": "zzz", "searchTerm": "x"}, "gantry/thread/events": {"cursor": "{}"}, "thread/search": {"cursor": "zzz", "searchTerm": "x"},
	} {
		if method != "thread/list" && method != "thread/search" {
			params["threadId"] = thread
		}
		m := c.Reply(c.Request(method, params))
		if m.Error == nil || m.Error.Code != -32600 || m.Error.Message != fmt.Sprintf("invalid cursor: %v", params["cursor"]) || !strings.Contains(string(m.Error.Data), `"next":"`) {
			t.Errorf("%s: %+v", method, m.Error)
		}
	}
	for method, params := range map[string]map[string]any{
		"thread/turns/list": {}, "thread/items/list": {}, "gantry/thread/events": {}, "thread/searchOccurrences": {"searchTerm": "x"}, "thread/items/read": {"turnId": "x", "itemIds": []string{"x"}},
	} {
		params["threadId"] = "0198c0de-0000-7000-8000-000000000000"
		if code, message := c.Refused(method, params); code != -32600 || !strings.HasPrefix(message, "thread not found") {
			t.Errorf("%s of an unknown thread: %d %s", method, code, message)
		}
	}
}

// Reverted turns are not part of the history, the turns of a fork's source are, and the responses have the cursors to read on.
func TestHistoryRevertForkResume(t *testing.T) {
	t.Parallel()
	r := rig.New(t, counting)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	names, ids := turnsNamed(t, c, thread, "one", "two", "three")
	type cursors struct {
		Thread                                     struct{ ID string }
		InitialTurnsPage                           *pages
		TurnsBackwardsCursor, ItemsBackwardsCursor *string
	}
	check := func(what, thread string, o cursors, want string) {
		t.Helper()
		if o.TurnsBackwardsCursor == nil || o.ItemsBackwardsCursor == nil {
			t.Errorf("%s: no cursors", what)
			return
		}
		if got := page(t, c, "thread/turns/list", thread, map[string]any{"cursor": o.TurnsBackwardsCursor}).ids(names); got != want {
			t.Errorf("%s: turns %s, want %s", what, got, want)
		}
		p := page(t, c, "thread/items/list", thread, map[string]any{"cursor": o.ItemsBackwardsCursor, "sortDirection": "desc", "limit": 1})
		if len(p.Data) != 1 || names[p.Data[0].TurnID] != strings.Fields(want)[0] || p.Data[0].Item.Type != "agentMessage" {
			t.Errorf("%s: items %+v", what, p)
		}
	}
	var reverted, fork, resumed cursors
	c.Call("thread/revert", map[string]any{"threadId": thread, "beforeTurnId": ids[2]}, &reverted)
	check("revert", thread, reverted, "t2 t1")
	if p := page(t, c, "thread/searchOccurrences", thread, map[string]any{"searchTerm": "three"}); len(p.Data) != 0 {
		t.Errorf("a reverted message is found: %+v", p)
	}
	c.Call("thread/fork", map[string]any{"threadId": thread, "lastTurnId": ids[0], "excludeTurns": true}, &fork)
	check("fork", fork.Thread.ID, fork, "t1")
	c.Close()

	c = r.AppServer()
	greet(t, c)
	if got := page(t, c, "thread/turns/list", thread, nil).ids(names); got != "t2 t1" {
		t.Errorf("turns of a thread that is not loaded: %s", got)
	}
	c.Call("thread/resume", map[string]any{"threadId": thread, "excludeTurns": true, "initialTurnsPage": map[string]any{"limit": 1, "itemsView": "full"}}, &resumed)
	check("resume", thread, resumed, "t2 t1")
	if p := resumed.InitialTurnsPage; p == nil || p.ids(names) != "t2" || p.NextCursor == nil || p.Data[0].ItemsView != "full" || len(p.Data[0].Items) != 2 {
		t.Errorf("the initial page: %+v", p)
	} else if got := page(t, c, "thread/turns/list", thread, map[string]any{"cursor": p.NextCursor}).ids(names); got != "t1" {
		t.Errorf("after the initial page: %s", got)
	}
}

// A running turn is in progress with its open items, here and for another process; after a crash it was interrupted.
func TestHistoryOfRunningTurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("echo one; touch running; until [ -e go ]; do sleep 0.01; done"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	turn := submit(t, c, thread, "hi")
	c.Notified("item/commandExecution/outputDelta")
	other := r.AppServer()
	greet(t, other)
	for name, c := range map[string]*rig.Client{"here": c, "another process": other} {
		p := page(t, c, "thread/turns/list", thread, map[string]any{"itemsView": "full"})
		if len(p.Data) != 1 || p.Data[0].ID != turn || p.Data[0].Status != "inProgress" || len(p.Data[0].Items) != 2 || p.Data[0].Items[1]["status"] != "inProgress" {
			t.Errorf("%s: turns %+v", name, p)
		}
		items := page(t, c, "thread/items/list", thread, nil)
		if len(items.Data) != 2 || items.Data[1].Item.ID != "c1" || name == "here" && items.Data[1].Item.AggregatedOutput != "one\n" {
			t.Errorf("%s: items %+v", name, items)
		}
	}
	r.Write("go", "")
	c.Notified("turn/completed")
	var p pages
	r.Until("the end of the turn is stored", func() bool {
		p = page(t, other, "thread/turns/list", thread, map[string]any{"itemsView": "full"})
		return p.Data[0].Status == "completed"
	})
	if p.Data[0].CompletedAt == nil || p.Data[0].Items[1]["aggregatedOutput"] != "one\n" {
		t.Errorf("after the turn: %+v", p)
	}
	// Outputs that were left out are read by the IDs of their items.
	deferred := page(t, c, "thread/items/list", thread, map[string]any{"deferOutput": map[string]any{"commandExecution": true}})
	if e := deferred.Data[1]; !e.OutputDeferred || e.Item.AggregatedOutput != "" {
		t.Errorf("deferred: %+v", e)
	}
	read := page(t, c, "thread/items/read", thread, map[string]any{"turnId": turn, "itemIds": []string{"c1"}})
	if len(read.Data) != 1 || read.Data[0].Item.AggregatedOutput != "one\n" || read.Data[0].OutputDeferred {
		t.Errorf("read: %+v", read)
	}
	if code, message := c.Refused("thread/items/read", map[string]any{"threadId": thread, "turnId": turn, "itemIds": []string{"c2"}}); code != -32600 || !strings.Contains(message, "c2") {
		t.Errorf("an unknown item: %d %s", code, message)
	}
}

// An ephemeral thread has a history as long as its process runs.
func TestHistoryOfEphemeralThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, counting)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{"ephemeral": true})
	names, _ := turnsNamed(t, c, thread, "one", "two")
	if got := page(t, c, "thread/turns/list", thread, nil).ids(names); got != "t2 t1" {
		t.Errorf("turns %s", got)
	}
	other := r.AppServer()
	greet(t, other)
	m := other.Reply(other.Request("thread/turns/list", map[string]any{"threadId": thread}))
	if m.Error == nil || m.Error.Code != -32600 || !strings.Contains(string(m.Error.Data), `"next":"`) {
		t.Errorf("in another process: %+v", m.Error)
	}
	if p := page(t, c, "thread/list", "", map[string]any{}); len(p.Data) != 0 {
		t.Errorf("it is listed: %+v", p)
	}
}

// Threads that were created in the same second are listed in pages without a loss, in both directions and by both keys.
func TestHistoryThreadList(t *testing.T) {
	t.Parallel()
	r := rig.New(t, counting)
	c := r.AppServer()
	greet(t, c)
	names, oldest := map[string]string{}, []string{}
	for i := range 5 {
		id := begin(t, c, map[string]any{})
		submit(t, c, id, fmt.Sprint("needle ", i))
		c.Notified("turn/completed")
		names[id] = fmt.Sprint("n", i)
		oldest = append(oldest, id)
	}
	c.Call("thread/name/set", map[string]any{"threadId": oldest[0], "name": "My needle"}, nil)
	r.OK("exec", "needle from exec")
	list := func(method string, params map[string]any) (p pages) {
		t.Helper()
		if method == "thread/search" {
			params["searchTerm"] = "needle"
		}
		c.Call(method, params, &p)
		for i, e := range p.Data {
			if method == "thread/search" {
				p.Data[i].ID = e.Thread.ID
			}
		}
		return p
	}
	for _, method := range []string{"thread/list", "thread/search"} {
		for key, want := range map[string]string{"created_at": "n4 n3 n2 n1 n0", "updated_at": "n0 n4 n3 n2 n1", "recency_at": "n0 n4 n3 n2 n1"} {
			var got []string
			params := map[string]any{"limit": 2, "sortKey": key}
			var last pages
			for {
				last = list(method, params)
				got = append(got, last.ids(names))
				if last.NextCursor == nil {
					break
				}
				params["cursor"] = *last.NextCursor
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s by %s: %q, want %s", method, key, got, want)
			}
			reversed := strings.Fields(want)
			slices.Reverse(reversed)
			if back := list(method, map[string]any{"cursor": *last.BackwardsCursor, "sortDirection": "asc", "sortKey": key}); back.ids(names) != strings.Join(reversed, " ") {
				t.Errorf("%s backwards by %s: %s", method, key, back.ids(names))
			}
		}
	}
	for _, test := range []struct {
		params map[string]any
		want   int
	}{
		{map[string]any{}, 5},
		{map[string]any{"sourceKinds": []string{"exec"}}, 1},
		{map[string]any{"sourceKinds": []string{"exec", "vscode"}}, 6},
		{map[string]any{"sourceKinds": []string{"cli"}}, 0},
		{map[string]any{"sourceKinds": []string{"subAgentOther"}}, 0},
		{map[string]any{"sourceKinds": []string{"appServer"}, "originators": []string{"test"}}, 5},
		{map[string]any{"originators": []string{"another"}}, 0},
		{map[string]any{"sourceKinds": []string{"exec"}, "originators": []string{"test"}}, 0},
		{map[string]any{"excludedThreadIds": oldest[:2]}, 3},
		{map[string]any{"searchTerm": "My needle"}, 1},
		{map[string]any{"cwd": r.Dir}, 5},
		{map[string]any{"cwd": []string{filepath.Join(r.Dir, "x"), r.Dir}}, 5},
		{map[string]any{"cwd": filepath.Join(r.Dir, "x")}, 0},
		{map[string]any{"archived": true}, 0},
		{map[string]any{"modelProviders": []string{"none"}}, 0},
		{map[string]any{"projectId": "p"}, 0},
		{map[string]any{"parentThreadId": oldest[0]}, 0},
		{map[string]any{"ancestorThreadId": oldest[0]}, 0},
		{map[string]any{"limit": 0}, 1},
	} {
		if p := list("thread/list", test.params); len(p.Data) != test.want {
			t.Errorf("%v: %s, want %d", test.params, p.ids(names), test.want)
		}
	}
	if code, message := c.Refused("thread/list", map[string]any{"parentThreadId": oldest[0], "ancestorThreadId": oldest[0]}); code != -32602 {
		t.Errorf("two filters that exclude each other: %d %s", code, message)
	}
	if p := list("thread/search", map[string]any{"limit": 5}); p.Data[4].Snippet != "needle 0" {
		t.Errorf("snippets: %+v", p.Data)
	}
}

// A turn is unread until the thread is marked as read; subscribers learn of marks.
func TestHistoryReadState(t *testing.T) {
	t.Parallel()
	r := rig.New(t, counting)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	_, ids := turnsNamed(t, c, thread, "one", "two")
	type readState struct {
		FirstUnread *struct{ Type, TurnID string }
		Revision    string
	}
	state := func() readState {
		t.Helper()
		var read struct{ ReadState readState }
		c.Call("thread/read", map[string]any{"threadId": thread}, &read)
		var list struct{ ReadStates map[string]readState }
		c.Call("thread/list", map[string]any{}, &list)
		if fmt.Sprint(list.ReadStates[thread].Revision) != read.ReadState.Revision {
			t.Errorf("listed as %+v, read as %+v", list.ReadStates[thread], read.ReadState)
		}
		return read.ReadState
	}
	before := state()
	if before.FirstUnread == nil || before.FirstUnread.TurnID != ids[0] {
		t.Errorf("%+v", before)
	}
	params := map[string]any{"threadId": thread, "operation": map[string]any{"type": "read"}, "expectedRevision": before.Revision}
	var marked struct{ ReadState readState }
	c.Call("thread/readState/update", params, &marked)
	var told struct {
		ThreadID  string
		ReadState readState
	}
	c.Notified("thread/readState/changed").Into(t, &told)
	if marked.ReadState.FirstUnread != nil || told.ThreadID != thread || told.ReadState != marked.ReadState || state() != marked.ReadState {
		t.Errorf("%+v, %+v, %+v", marked, told, state())
	}
	if code, message := c.Refused("thread/readState/update", params); code != -32600 || !strings.Contains(message, "changed meanwhile") {
		t.Errorf("an old revision: %d %s", code, message)
	}
	params["operation"], params["expectedRevision"] = map[string]any{"type": "unread"}, marked.ReadState.Revision
	c.Call("thread/readState/update", params, &marked)
	if u := marked.ReadState.FirstUnread; u == nil || u.Type != "turn" || u.TurnID != ids[1] {
		t.Errorf("unread: %+v", u)
	}
	var fork struct{ Thread struct{ ID string } }
	c.Call("thread/fork", map[string]any{"threadId": thread}, &fork)
	thread = fork.Thread.ID
	if s := state(); s.FirstUnread != nil {
		t.Errorf("a fork: %+v", s)
	}
}

// What a turn did to files is undone, and the undo is undone; a dry run says what would happen.
func TestHistoryUndo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF}))
	r.Write("f", "before\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	turn := submit(t, c, thread, "go")
	c.Notified("turn/completed")
	content := func() string {
		b, err := os.ReadFile(filepath.Join(r.Dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	var u struct {
		UndoID  *string
		TurnIDs []string
		Files   []struct{ Path, Action string }
		Refused bool
	}
	undo := func(params map[string]any) {
		t.Helper()
		u.UndoID, u.Files, u.TurnIDs, u.Refused = nil, nil, nil, false
		params["threadId"] = thread
		c.Call("gantry/turn/undo", params, &u)
	}
	if undo(map[string]any{"dryRun": true}); len(u.Files) != 1 || u.Files[0].Action != "write" || u.UndoID != nil || content() != "after" {
		t.Errorf("dry run: %+v, %s", u, content())
	}
	if undo(map[string]any{"turnId": turn}); u.UndoID == nil || !slices.Equal(u.TurnIDs, []string{turn}) || content() != "before" {
		t.Errorf("undo: %+v, %s", u, content())
	}
	if undo(map[string]any{"redo": true}); u.UndoID == nil || content() != "after" {
		t.Errorf("redo: %+v, %s", u, content())
	}
	r.Write("f", "of the user\n")
	if undo(map[string]any{}); !u.Refused || u.UndoID != nil || content() != "of the user" {
		t.Errorf("a file that the user has changed: %+v, %s", u, content())
	}
	for want, bad := range map[int]map[string]any{-32600: {"turnId": "x"}, -32602: {"turnId": turn, "redo": true}} {
		bad["threadId"] = thread
		if code, message := c.Refused("gantry/turn/undo", bad); code != want {
			t.Errorf("%v: %d %s", bad, code, message)
		}
	}
}
