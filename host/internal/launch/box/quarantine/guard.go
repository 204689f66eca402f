package quarantine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/recovery"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// What a command creates and other programs would execute is judged when the command ends, before anything runs outside of the
// sandbox while it is running, and as soon as it appears once its call has ended. Whatever was not there before the oldest command
// that is still running in the folder is moved aside. During a call nothing is moved unless something outside could execute it: the
// tests of a program that works with repositories create some, and need them.

const (
	// maxStrikes is how many times a session's creations may be moved aside before nothing runs outside of the sandbox until it
	// ends.
	maxStrikes = 2
	// maxMoves is how many files of a session may be moved aside before the session is ended.
	maxMoves = 100
	// quietTime is how long folders must not change before they are read again in the background.
	quietTime = 200 * time.Millisecond
	// lockLinger is how long a folder's record stays after the last command has ended: the next one is likely to follow.
	lockLinger = 2 * time.Second
	// expectedLinger is lockLinger for a command that is only expected, as long as a prepared sandbox waits for it.
	expectedLinger = 30 * time.Second
)

// Command is a sandboxed process that may write, with all that it starts.
type Command struct {
	Owner      launch.Owner
	Argv       []string
	End        func() // ends the command
	Roots      []string
	Opened     []string
	Sealed     map[string]fspath.Identity
	Missing    []string
	Denied     Denied
	GrantRoots []string // Roots as the grant spells them

	background bool // its call has ended
	strikes    int  // how often its creations were moved aside since then
	moved      int  // how many files were
}

// Name returns the command line, shortened, for messages.
func (g *Command) Name() string {
	text := strings.Join(g.Argv, " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// rootState is what is known of a writable root.
type rootState struct {
	known      map[fspath.Identity]bool // the files that mattered before the oldest command; nil: no command is running and everything was judged
	named      map[string]string        // what git's settings named then
	denied     Denied                   // what was denied to the commands
	grantRoots []string                 // the root as grants spell it
	began      time.Time
	lock       *recovery.Lock // nil: nothing is recorded on disk
	// record is the content of lock.
	record recovery.Record
	anchor *anchor // the folder itself while commands run; nil: only the path counts

	lockUntil    time.Time                  // when the record may be removed
	recorded     map[fspath.Identity]bool   // the files in the record
	digests      map[fspath.Identity]string // their digests
	unlockTimer  *time.Timer                // removes the record
	refreshTimer *time.Timer                // reads what has changed
}

// forget drops what is known of a root in which no command runs any more.
func (at *rootState) forget() {
	at.known = nil
	if at.anchor != nil {
		at.anchor.close()
		at.anchor = nil
	}
}

// end also removes the record and stops the timers.
func (at *rootState) end() {
	for _, t := range []*time.Timer{at.unlockTimer, at.refreshTimer} {
		if t != nil {
			t.Stop()
		}
	}
	at.forget()
	if at.lock != nil {
		at.lock.Remove()
		at.lock = nil
	}
}

// Config configures a Guard.
type Config struct {
	Home     string   // gantry's own folder; empty: nothing is kept on disk
	UserHome string   // the user's home folder
	Environ  []string // the user's environment
	Moved    func(launch.Owner, []Moved, error)
}

// New returns a guard without commands.
func New(o Config) *Guard {
	h := &Guard{moved: o.Moved, records: &recovery.Records{}, states: map[string]*rootState{}, closing: make(chan struct{})}
	h.Index = &autorun.Index{UserHome: o.UserHome, References: autorun.NewReferences(o.UserHome, o.Environ), OnChange: h.changed, InUse: h.replaced}
	if o.Home != "" {
		h.Index.CacheDir = filepath.Join(o.Home, "cache", ".trees") // no plugin can have this name
		h.records.Dir = filepath.Join(o.Home, "locks", "running")
	}
	return h
}

// HeldFile returns a descriptor that launchers keep open until their processes have ended, or nil. The caller closes it.
func (h *Guard) HeldFile() *os.File { return h.records.HeldFile() }

// Guard knows the commands that are running and the roots that they write to. Its methods may be called concurrently.
type Guard struct {
	// Index finds what is executed later in the roots.
	Index     *autorun.Index
	leftovers leftovers
	records   *recovery.Records
	moved     func(launch.Owner, []Moved, error)

	mu       sync.Mutex
	commands []*Command // in the order in which they started
	states   map[string]*rootState
	closed   bool
	pipes    []*os.File // of gantry processes that were killed

	closing  chan struct{}  // closed by Close
	adopters sync.WaitGroup // wait for pipes to end
}

// notice is a report that is sent once the lock is released.
type notice struct {
	owner launch.Owner
	moved []Moved
	err   error
}

func (h *Guard) notify(words ...notice) {
	for _, w := range words {
		if h.moved != nil && (len(w.moved) > 0 || w.err != nil) {
			h.moved(w.owner, w.moved, w.err)
		}
	}
}

// state returns the state of a root. The caller holds h.mu.
func (h *Guard) state(root string) *rootState {
	g := h.states[root]
	if g == nil {
		g = &rootState{}
		h.states[root] = g
	}
	return g
}

// commandsIn returns the commands that write to a root.
func (h *Guard) commandsIn(root string) []*Command {
	return slices.DeleteFunc(slices.Clone(h.commands), func(g *Command) bool { return !slices.Contains(fspath.Outermost(g.Roots), root) })
}

// Attempts is how often a search is repeated while folders are being moved.
const Attempts = 4

// Enter adds a command that is about to start and returns what matters in its roots now. Where no command is running, all of that
// belongs to the user.
func (h *Guard) Enter(g *Command) (*autorun.Found, error) {
	h.mu.Lock()
	found, words, err := h.admit(g)
	h.mu.Unlock()
	h.notify(words...)
	return found, err
}

// admit is Enter with h.mu held.
func (h *Guard) admit(g *Command) (found *autorun.Found, words []notice, err error) {
	if h.closed {
		return nil, nil, autorun.ErrClosed
	}
	h.followRenames()
	outer := fspath.Outermost(g.Roots)
	for _, root := range outer {
		w, err := h.recover(root, g.Owner)
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		if len(h.commandsIn(root)) > 0 || h.state(root).known == nil {
			continue
		}
		w, err = h.judgeUntilSure(g.Owner, []string{root}) // it could not be judged when the last command ended
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		h.state(root).forget()
	}
	// Files that the user has created since the last command ended are known from here on.
	if found, err = h.remember(g.Roots, g.Sealed); err != nil {
		h.release(outer)
		return nil, words, err
	}
	for _, root := range outer {
		at := h.state(root)
		maps.Copy(at.denied, g.Denied)
		at.grantRoots = append(at.grantRoots, slices.DeleteFunc(slices.Clone(g.GrantRoots), func(r string) bool { return slices.Contains(at.grantRoots, r) })...)
	}
	h.commands = append(h.commands, g)
	return found, words, nil
}

// remember records what is in roots without commands as the user's, on disk as well. It returns what was found.
func (h *Guard) remember(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	outer := fspath.Outermost(roots)
	if !slices.ContainsFunc(outer, func(r string) bool { return h.state(r).known == nil }) {
		return h.Index.Find(roots, whole, nil)
	}
	all, err := h.Index.Find(roots, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, root := range outer {
		at := h.state(root)
		if at.known != nil {
			continue
		}
		known := map[fspath.Identity]bool{}
		for _, p := range all.Files {
			if p.Root == root {
				known[p.ID] = true
			}
		}
		if err := h.record(root, all, known); err != nil {
			return nil, err
		}
		at.forget()
		at.anchor = anchorAt(root)
		at.known, at.named, at.denied, at.grantRoots, at.began = known, all.Named, Denied{}, nil, time.Now()
	}
	return h.Index.FindAgain(roots, whole)
}

// Expect is Enter for a prepared sandbox whose command is still to come. The record is written meanwhile.
func (h *Guard) Expect(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, autorun.ErrClosed
	}
	h.followRenames()
	fresh := slices.DeleteFunc(fspath.Outermost(roots), func(r string) bool { return h.state(r).known != nil })
	found, err := h.remember(roots, whole)
	for _, root := range fresh { // no command is running there yet
		h.state(root).forget()
		h.removeLockLater(root, expectedLinger)
	}
	return found, err
}

// Look returns what Enter has returned, as of now.
func (h *Guard) Look(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Index.Find(roots, whole, nil)
}

// Withdraw removes a command that was not started.
func (h *Guard) Withdraw(g *Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = slices.DeleteFunc(h.commands, func(x *Command) bool { return x == g })
	h.release(fspath.Outermost(g.Roots))
}

// Leave removes a command that has ended and judges what it has created. more returns what else to report. sure says that nothing
// can have been overlooked.
func (h *Guard) Leave(g *Command, more func() []Moved) (sure bool) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	words, unsure, err := h.judge(g.Owner, h.related(g.Roots))
	if err != nil {
		words = append(words, notice{owner: g.Owner, err: err})
	} else {
		h.allowOpened(g)
	}
	h.commands = slices.DeleteFunc(h.commands, func(x *Command) bool { return x == g })
	if sure = err == nil && unsure == nil; sure {
		h.release(fspath.Outermost(g.Roots))
	}
	h.mu.Unlock()
	if more != nil {
		if later := more(); len(words) > 0 {
			words[0].moved = append(words[0].moved, later...)
		} else {
			words = []notice{{owner: g.Owner, moved: later}}
		}
	}
	h.notify(words...)
	h.Index.Trim(h.idle)
	return sure
}

// allowOpened adds what exists of a command's opened paths to what the other commands found, so that it is not moved aside later.
func (h *Guard) allowOpened(g *Command) {
	if len(g.Opened) == 0 || len(h.commands) < 2 {
		return
	}
	all, err := h.Index.Find(g.Roots, nil, nil)
	if err != nil {
		return // it is judged with the rest
	}
	for _, p := range all.Files {
		if at := h.states[p.Root]; at != nil && at.known != nil && (fspath.ContainsOpened(p.AbsPath(), g.Opened) || fspath.BelowAny(p.AbsPath(), g.Opened)) {
			at.known[p.ID] = true
		}
	}
}

// release drops what is known of roots in which no command is running any more.
func (h *Guard) release(roots []string) {
	for _, root := range roots {
		at := h.states[root]
		if at == nil || len(h.commandsIn(root)) > 0 {
			continue
		}
		at.forget()
		h.removeLockLater(root, lockLinger)
	}
}

// removeLockLater removes the record of a root after a time, unless a command is running there by then.
func (h *Guard) removeLockLater(root string, after time.Duration) {
	at := h.state(root)
	if at.lock == nil || h.closed {
		return
	}
	if until := time.Now().Add(after); until.After(at.lockUntil) {
		at.lockUntil = until
	}
	if at.unlockTimer != nil {
		at.unlockTimer.Stop()
	}
	at.unlockTimer = time.AfterFunc(time.Until(at.lockUntil), func() { h.removeLock(root) })
}

// removeLock removes the record of a root in which no command is running.
func (h *Guard) removeLock(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.states[root]; at != nil && at.known == nil && at.lock != nil {
		at.lock.Remove()
		at.lock = nil
	}
}

// related returns the roots of all commands that share a root with roots, directly or through other commands.
func (h *Guard) related(roots []string) []string {
	out := fspath.Outermost(roots)
	for n := -1; n != len(out); {
		n = len(out)
		for _, g := range h.commands {
			own := fspath.Outermost(g.Roots)
			if slices.ContainsFunc(own, func(r string) bool { return slices.Contains(out, r) }) {
				for _, r := range own {
					if !slices.Contains(out, r) {
						out = append(out, r)
					}
				}
			}
		}
	}
	return out
}

// judgeUntilSure judges until nothing can have been overlooked.
func (h *Guard) judgeUntilSure(owner launch.Owner, roots []string) (words []notice, err error) {
	for range Attempts {
		w, unsure, failed := h.judge(owner, roots)
		words = append(words, w...)
		if err = errors.Join(unsure, failed); failed != nil || unsure == nil {
			break
		}
	}
	return words, err
}

// judge moves aside what was not there before the oldest command in these roots. unsure says why something may have been
// overlooked. The caller holds h.mu, and sends the notices after releasing it.
func (h *Guard) judge(owner launch.Owner, outer []string) (words []notice, unsure, err error) {
	for range Attempts {
		moved := h.followRenames()
		for i, root := range outer {
			outer[i] = cmp.Or(moved[root], root)
		}
		if words, unsure, err = h.judgeIn(owner, outer); !errors.Is(err, tree.ErrGone) {
			break
		}
	}
	return words, unsure, err
}

// judgeIn judges once. Its baseline is the union of what was known in all roots, since the moment that the oldest command started.
func (h *Guard) judgeIn(owner launch.Owner, outer []string) (words []notice, unsure, err error) {
	var roots, opened, missing, asked []string
	var whole map[string]fspath.Identity
	was, before := baseline{known: map[fspath.Identity]bool{}, began: time.Now(), denied: Denied{}}, &autorun.Found{Named: map[string]string{}}
	for _, root := range outer {
		if at := h.states[root]; at != nil && at.known != nil && fspath.IsDir(root) { // a root that was removed has nothing left in it
			roots, asked = append(roots, root), append(asked, at.grantRoots...)
			maps.Copy(was.known, at.known)
			maps.Copy(was.denied, at.denied)
			maps.Copy(before.Named, at.named)
			if at.began.Before(was.began) {
				was.began = at.began
			}
		}
	}
	if len(roots) == 0 {
		return nil, nil, nil
	}
	var all []*Command
	// A path counts as sealed only if all commands have it mounted read-only: otherwise one of them may have written below it.
	for _, g := range h.commands {
		if !slices.ContainsFunc(fspath.Outermost(g.Roots), func(r string) bool { return slices.Contains(outer, r) }) {
			continue
		}
		for _, r := range g.Roots {
			if !slices.Contains(roots, r) && fspath.IsDir(r) {
				roots = append(roots, r)
			}
		}
		opened, missing = append(opened, g.Opened...), append(missing, g.Missing...)
		if len(all) == 0 {
			whole = maps.Clone(g.Sealed)
		}
		maps.DeleteFunc(whole, func(path string, id fspath.Identity) bool { return g.Sealed[path] != id })
		all = append(all, g)
	}
	after, moved, err := h.quarantineNew(was, opened, func() (*autorun.Found, error) {
		after, err := h.Index.Find(roots, whole, was.known)
		if err == nil {
			after.DropOlder(was.began, before)
			after.Files = append(after.Files, slices.Concat(autorun.Appeared(missing, roots), autorun.LinksToRoots(asked, roots))...)
		}
		return after, err
	})
	if after == nil {
		return nil, nil, err
	}
	if len(moved) > 0 || err != nil {
		words = append(words, notice{owner: owner, moved: moved, err: err})
		words = append(words, addStrikes(all, len(moved))...)
	}
	if unsure = after.Err; unsure == nil && after.Moved {
		unsure = errors.New("folders are being moved continuously, so files that are executed later can't be found; end the process that moves them")
	}
	return words, unsure, nil
}

// quarantineNew moves aside what look finds and was not there before. Folders that were moved are searched in turn: under their new
// names everything in them is new.
func (h *Guard) quarantineNew(was baseline, opened []string, look func() (*autorun.Found, error)) (after *autorun.Found, moved []Moved, err error) {
	for range Attempts {
		if after, err = look(); err != nil {
			return nil, moved, err
		}
		some, stuck, again, err := quarantine(was, opened, after)
		h.leftovers.add(stuck) // it makes the next command fail
		moved = append(moved, some...)
		if err != nil || !again && !slices.ContainsFunc(some, func(m Moved) bool { return m.To != "" && fspath.IsDir(m.To) }) {
			return after, moved, err
		}
	}
	after.Moved = true
	return after, moved, nil
}

// addStrikes charges what was moved aside to the sessions that may have created it. During a call it charges nothing.
func addStrikes(all []*Command, moves int) (words []notice) {
	if moves == 0 || slices.ContainsFunc(all, func(g *Command) bool { return !g.background }) {
		return nil
	}
	for _, g := range all {
		g.strikes++
		if g.moved += moves; g.moved >= maxMoves && g.End != nil {
			g.End()
			g.End = nil
			words = append(words, notice{owner: g.Owner, err: fmt.Errorf("the session %s was ended: %d files that it created, and that would be executed later, were moved aside", g.Name(), g.moved)})
		}
	}
	return words
}

// Clear retries what could not be moved aside before.
func (h *Guard) Clear(owner launch.Owner) error {
	moved, err := h.leftovers.retry()
	h.notify(notice{owner: owner, moved: moved})
	return err
}

// Settle judges what commands have created so far, before something runs outside of the sandbox. The error says why nothing may
// run.
func (h *Guard) Settle(owner launch.Owner) error {
	if err := h.Clear(owner); err != nil {
		return err
	}
	if err := h.judgeAll(owner); err != nil {
		return err
	}
	return h.Clear(owner)
}

func (h *Guard) judgeAll(owner launch.Owner) error {
	h.mu.Lock()
	var words []notice
	var err error
	h.followRenames()
	for _, root := range slices.Sorted(maps.Keys(h.states)) {
		if at := h.states[root]; at == nil || at.known == nil {
			continue
		}
		of := owner
		if on := h.commandsIn(root); len(on) > 0 {
			of = on[0].Owner
		}
		w, failed := h.judgeUntilSure(of, h.related([]string{root}))
		words, err = append(words, w...), errors.Join(err, failed)
	}
	for _, g := range h.commands {
		if err == nil && g.strikes >= maxStrikes {
			err = fmt.Errorf("the session %s keeps creating files that would be executed later, although they are moved aside; nothing runs outside of the sandbox until it ends: end that session first", g.Name())
		}
	}
	h.mu.Unlock()
	h.notify(words...)
	return err
}

// RemoveLink moves aside a symbolic link on the way to a writable root if a command has created it.
func (h *Guard) RemoveLink(owner launch.Owner, link string) bool {
	h.mu.Lock()
	began, found := time.Time{}, ""
	for root, at := range h.states {
		if at.known != nil && fspath.Below(link, root) && (found == "" || at.began.Before(began)) {
			began, found = at.began, root
		}
	}
	if found == "" {
		list, _ := h.records.Orphans(link)
		for _, o := range list {
			if fspath.Below(link, o.Root) && (found == "" || o.Began.Before(began)) {
				began, found = o.Began, o.Root
			}
			o.Lock.Close()
		}
	}
	id, _, ok := fspath.Lstat(link)
	was := baseline{began: began}
	if found == "" || !ok || was.before(id.Changed) {
		h.mu.Unlock()
		return false
	}
	rel, _ := filepath.Rel(found, link)
	moved, stuck, _, err := quarantine(was, nil, &autorun.Found{Roots: []string{found}, Files: []autorun.File{{Root: found, Path: rel, Kind: autorun.KindRootLink, ID: id}}})
	h.leftovers.add(stuck)
	h.mu.Unlock()
	h.notify(notice{owner: owner, moved: moved, err: err})
	return len(moved) > 0
}

// Outlived says that a call has ended, of which commands may still be running.
func (h *Guard) Outlived(owner launch.Owner) {
	h.mu.Lock()
	var roots []string
	for _, g := range h.commands {
		if g.Owner == owner && !g.background {
			g.background, roots = true, append(roots, g.Roots...)
		}
	}
	h.mu.Unlock()
	for _, root := range fspath.Outermost(roots) {
		h.judgeNow(root)
	}
}

// judgeNow judges a root unless a call is under way there.
func (h *Guard) judgeNow(root string) {
	h.mu.Lock()
	var words []notice
	if to, ok := h.followRenames()[root]; ok {
		root = to
	}
	if on := h.commandsIn(root); len(on) > 0 && !slices.ContainsFunc(on, func(g *Command) bool { return !g.background }) {
		var err error
		if words, _, err = h.judge(on[0].Owner, h.related([]string{root})); err != nil {
			words = append(words, notice{owner: on[0].Owner, err: err})
		}
	}
	h.mu.Unlock()
	h.notify(words...)
}

// changed is called by the index when something has changed in a root.
func (h *Guard) changed(root string) {
	h.mu.Lock()
	busy := len(h.commandsIn(root)) > 0
	if at := h.state(root); !busy && !h.closed { // read it once the root is quiet
		if at.refreshTimer == nil {
			at.refreshTimer = time.AfterFunc(quietTime, func() { h.refresh(root) })
		} else {
			at.refreshTimer.Reset(quietTime)
		}
	}
	h.mu.Unlock()
	if busy {
		h.judgeNow(root)
	}
}

// replaced reports whether commands run in a folder that is no longer at its path. The caller holds h.mu.
func (h *Guard) replaced(root string) bool {
	at := h.states[root]
	return at != nil && at.known != nil && at.anchor != nil && !at.anchor.is(root)
}

// refresh reads in the background what has changed in a root.
func (h *Guard) refresh(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.commandsIn(root)) == 0 && !h.closed {
		_, _, _ = h.Index.Settle(root) // the next search reports the error
	}
}

// idle reports whether no command is running in a root.
func (h *Guard) idle(root string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.states[root]
	return (at == nil || at.known == nil) && len(h.commandsIn(root)) == 0
}

// Close stops the background work. Records of roots with unjudged files are left for the next gantry.
func (h *Guard) Close() {
	h.mu.Lock()
	h.closed = true
	for _, at := range h.states {
		for _, t := range []*time.Timer{at.unlockTimer, at.refreshTimer} {
			if t != nil {
				t.Stop()
			}
		}
		left := at.known != nil
		at.forget()
		if at.lock == nil {
			continue
		}
		if !left {
			at.lock.Remove()
		} else {
			at.lock.Release() // the next gantry judges what is there
		}
		at.lock = nil
	}
	select {
	case <-h.closing:
	default:
		close(h.closing)
	}
	recovery.CloseAll(h.pipes) // ends the adopters
	h.mu.Unlock()
	h.adopters.Wait()
	h.Index.Close()
	h.records.Drop()
}

// Abandon drops all state as if the process had been killed: nothing is judged, and its locks are released. It is for tests.
func (h *Guard) Abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = nil
	for _, at := range h.states {
		if at.lock != nil {
			at.lock.Release()
		}
		at.lock = nil
		at.forget()
	}
	h.records.Abandon()
}

// WaitAdopted waits until no process of a killed gantry is left. It is for tests.
func (h *Guard) WaitAdopted() { h.adopters.Wait() }
