package plugintest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

const (
	defaultRestarts = 50
	// fewestRestarts show a leak, and restartTime bounds the others.
	fewestRestarts = 3
	restartTime    = 2 * time.Second
)

// shutdownStory is what one orderly end left behind.
type shutdownStory struct {
	sockets []string
	alive   []int
}

// shutdown asks a process to end as go-plugin does, and waits for it.
func (k *kit) shutdown(ctx context.Context, p *process) error {
	limited, cancel := k.within(ctx, endPatience)
	defer cancel()
	if err := p.conn.Invoke(limited, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		return fmt.Errorf("it was asked to shut down: %w", k.explain(limited, p, err))
	}
	if !p.wait(endPatience + k.cfg.Slack) {
		return fmt.Errorf("it runs on %v after the answer", endPatience)
	}
	if p.exitCode() != 0 {
		p.finish()
		return fmt.Errorf("%s", p.end())
	}
	return nil
}

func checkShutdown(ctx context.Context, k *kit) verdict {
	const next = "serve plugin.GRPCController/Shutdown: answer first, then exit with status 0"
	k.drop()
	p, err := k.start(ctx, wire.TransportPeer)
	if p != nil {
		defer p.kill()
	}
	if err != nil {
		return broken(err)
	}
	if !k.failed["configure.accepts"] {
		if err := k.configure(ctx, p, k.configuration()); err != nil {
			return broken(err)
		}
	}
	family := p.family()
	began := time.Now()
	if err := k.shutdown(ctx, p); err != nil {
		return failed(next, "%v", err)
	}
	took := time.Since(began).Round(time.Millisecond)
	s := &shutdownStory{sockets: p.sockets()}
	family = slices.DeleteFunc(family, func(pid int) bool { return !alive(pid) })
	s.alive = slices.Compact(slices.Sorted(slices.Values(append(family, p.left()...))))
	for _, pid := range s.alive {
		killPID(pid)
	}
	k.shut = s
	return passed("status 0 after %v", took)
}

func checkShutdownSocket(_ context.Context, k *kit) verdict {
	if left := k.shut.sockets; len(left) > 0 {
		return failed("close the listener, which removes the socket, before the process ends", "left behind: %s", strings.Join(left, ", "))
	}
	return passed("the folder is empty")
}

func checkShutdownChildren(_ context.Context, k *kit) verdict {
	if !treeSupported {
		return skipped("", "processes can't be listed on this system")
	}
	if left := k.shut.alive; len(left) > 0 {
		return failed("start processes through the host's Spawn, which ends them; others must be ended before the plugin", "still running: pid %s", strings.Trim(fmt.Sprint(left), "[]"))
	}
	return passed("none left")
}

// midCall starts a process for an end without warning, with a call running where there is an example for one.
func (k *kit) midCall(ctx context.Context) (p *process, how string, err error) {
	if k.failed["configure.accepts"] {
		k.drop()
		p, err = k.start(ctx, wire.TransportPeer)
		if err != nil && p != nil {
			p.kill()
		}
		return p, "idle", err
	}
	if p, err = k.fresh(ctx); err != nil {
		return nil, "", err
	}
	if k.manifest.Kind == contract.KindTool && k.waiting() >= 0 {
		if running, err := k.wait(ctx, p, nil); err == nil && running != nil {
			return p, "in the middle of a call", nil
		}
	}
	return p, "idle", nil
}

// ends does something to a process and demands its end within limit.
func (k *kit) ends(ctx context.Context, limit time.Duration, next string, do func(*process)) verdict {
	p, how, err := k.midCall(ctx)
	if err != nil {
		return broken(err)
	}
	defer p.kill()
	began, family := time.Now(), p.family()
	defer func() {
		for _, pid := range family {
			if p.dead() && alive(pid) { // orphans, still young enough to bear their own numbers
				killPID(pid)
			}
		}
	}()
	do(p)
	if !p.wait(limit + k.cfg.Slack) {
		return failed(next, "%s, it runs on %v later", how, limit)
	}
	return passed("%s, %v later: %s", how, time.Since(began).Round(time.Millisecond), p.cmd.ProcessState)
}

func checkSIGTERM(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, endPatience, "end on SIGTERM, cleaning up first",
		func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) })
}

func checkLifeline(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, gonePatience, "after the first line go on reading the descriptor that "+wire.LifelineEnv+" names; at its end, exit whatever runs",
		func(p *process) { _ = p.life.Close() })
}

func checkHostKilled(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, gonePatience, "write no last words that can fail or block: nobody reads them",
		func(p *process) { p.hangUp() })
}

func checkRestarts(ctx context.Context, k *kit) verdict {
	want := k.cfg.Restarts
	if want <= 0 {
		want = defaultRestarts
	}
	k.drop()
	began, base := time.Now(), 0
	for n := 1; n <= want; n++ {
		if n > fewestRestarts && k.cfg.Restarts <= 0 && time.Since(began) > restartTime {
			want = n - 1
			break
		}
		if err := k.restart(ctx); err != nil {
			return failed("look at what is different when it is started again", "start number %d: %v", n, err)
		}
		if n == 1 {
			base = k.litter()
		}
	}
	k.figures.Restarts = want
	if more := k.litter() - base; more >= want-1 && more > 0 {
		return failed("remove what a start leaves in the temporary, data and cache folders, or use a fixed name", "%d starts left %d more files behind", want-1, more)
	}
	return passed("%d times", want)
}

func (k *kit) restart(ctx context.Context) error {
	p, err := k.start(ctx, wire.TransportPeer)
	if p != nil {
		defer p.kill()
	}
	if err == nil && !k.failed["configure.accepts"] {
		err = k.configure(ctx, p, k.configuration())
	}
	if err != nil {
		return err
	}
	return k.shutdown(ctx, p)
}

// litter counts what lies in the folders that the plugin may write to.
func (k *kit) litter() int {
	n := 0
	for _, dir := range []string{k.tmp, k.data, k.cache, k.home, k.work} {
		_ = walk(dir, func() { n++ })
	}
	return n
}

func walk(dir string, each func()) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		each()
		if e.IsDir() {
			_ = walk(dir+string(os.PathSeparator)+e.Name(), each)
		}
	}
	return nil
}
