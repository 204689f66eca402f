//go:build linux

package launch_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// What a tree uses is the sum of its processes, and nothing once it has ended.
func TestReadTree(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, script("sleep 1000 & sleep 1000 & i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo on; wait"))
	on, said := errors.New("on"), []byte(nil)
	if _, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
		if said = append(said, o.Data...); bytes.Contains(said, []byte("on\n")) {
			return on
		}
		return nil
	}); !errors.Is(err, on) {
		t.Fatal(err)
	}
	if u := launch.ReadTree(p); u.PIDs != 3 || u.Resident < 3<<10 || u.CPU <= 0 {
		t.Errorf("it uses %+v", u)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
	if u := launch.ReadTree(p); u != (launch.Tree{}) {
		t.Errorf("ended, it uses %+v", u)
	}
}
