package attacks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// result is what came of a try.
type result struct {
	status int
	output string
}

func key(id string, i int) string { return id + "." + strconv.Itoa(i) }

// begun and ended stand around what a try prints.
const begun, ended = "@@ begun ", "@@ ended "

// bound is how long any run may take before it counts as hung.
const bound = 2 * time.Minute

// runBoxes runs all tries, those of one kind in one box.
func (w *world) runBoxes(t *testing.T) map[string]result {
	t.Helper()
	all := map[string]result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for box, settings := range boxes {
		if settings == nil { // runCages
			continue
		}
		script, file := w.script(box), filepath.Join(w.top, "box-"+box+".sh")
		if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			out := w.gantry(t, nil, append(append([]string{"sandbox", "-C", w.ws}, settings...), "--", "/bin/sh", file)...)
			if strings.Contains(out.output, providerKey) {
				t.Errorf("the key of a provider was read in the box %q:\n%s", box, out.output)
			}
			got := parse(out.output)
			if len(got) == 0 {
				t.Errorf("the box %q: status %d\n%s", box, out.status, out.output)
			}
			mu.Lock()
			defer mu.Unlock()
			for name, r := range got {
				all[name] = r
			}
		})
	}
	wg.Wait()
	return all
}

// script is all tries of a box, one after the other.
func (w *world) script(box string) string {
	return w.tries(func(_ string, a try) bool { return a.box == box })
}

// tries are those that are chosen.
func (w *world) tries(chosen func(id string, a try) bool) string {
	var b strings.Builder
	var called []string
	for _, r := range table {
		for i, a := range r.tries {
			switch {
			case !chosen(r.id, a):
			case a.call != "":
				called = append(called, "'"+key(r.id, i)+"="+a.call+"'")
			default:
				fmt.Fprintf(&b, "printf '\\n%s%s\\n'\n( cd \"$WS\" || exit 99\n%s\n) </dev/null 2>&1\nprintf '\\n%s%%s\\n' $?\n", begun, key(r.id, i), a.do, ended)
			}
		}
	}
	if len(called) > 0 {
		fmt.Fprintf(&b, "exec \"$ATTACKER\" %s 2>&1\n", strings.Join(called, " "))
	}
	return b.String()
}

// parse reads what a script has printed.
func parse(out string) map[string]result {
	all := map[string]result{}
	name, text := "", ""
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, begun):
			name, text = strings.TrimSpace(strings.TrimPrefix(line, begun)), ""
		case strings.HasPrefix(line, ended):
			if status, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, ended))); err == nil && name != "" {
				all[name] = result{status, strings.TrimSpace(text)}
			}
			name = ""
		default:
			text += line
		}
	}
	return all
}

// gantry runs gantry in this world. Variables come on top of the world's.
func (w *world) gantry(t testing.TB, env []string, args ...string) result {
	t.Helper()
	return w.run(t, append(w.env(), env...), append([]string{gantry(t)}, args...)...)
}

// run runs a program in the workspace, with the descriptors that leak.
func (w *world) run(t testing.TB, env []string, argv ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = w.ws, env, w.leaks, &out, &out
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Errorf("%q: %v\n%s", argv, err, out.String())
	}
	return result{cmd.ProcessState.ExitCode(), out.String()}
}

// control runs a try without a sandbox, in a world of its own.
func (w *world) control(t *testing.T, name string, a try) result {
	t.Helper()
	w.once.mu.Lock()
	known, ok := w.once.outside[a.do+"\x00"+a.call]
	w.once.mu.Unlock()
	if ok {
		return known
	}
	c := &world{top: filepath.Join(w.top, "outside", name), programs: w.programs, victim: w.victim, services: w.outer}
	mkdir(t, c.top)
	c.fill(t)
	if _, own := cages[a.box]; !own && a.inCage(name) != "" {
		c.listen(t, w.outer)
	}
	var r result
	if a.call != "" {
		out := c.run(t, c.env(), filepath.Join(c.programs, "attacker"), name+"="+a.call)
		r = parse(out.output)[name]
	} else {
		r = c.run(t, c.env(), "/bin/sh", "-c", a.do)
	}
	w.once.mu.Lock()
	defer w.once.mu.Unlock()
	w.once.outside[a.do+"\x00"+a.call] = r
	return r
}
