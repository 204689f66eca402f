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
	// At least minRestarts are needed to detect a leak. Further ones are limited by restartTime.
	minRestarts = 3
	restartTime = 2 * time.Second
)

// remains lists what an orderly exit left behind.
type remains struct {
	sockets []string
	alive   []int
}

// shutdown asks a process to exit like go-plugin does, and waits for it.
func (k *kit) shutdown(ctx context.Context, p *process) error {
	limited, cancel := k.within(ctx, exitTimeout)
	defer cancel()
	if err := p.conn.Invoke(limited, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		return fmt.Errorf("the RPC Shutdown: %w", k.explain(limited, p, err))
	}
	if !p.wait(exitTimeout + k.cfg.Slack) {
		return fmt.Errorf("still running %v after the response", exitTimeout)
	}
	if p.exitCode() != 0 {
		p.finish()
		return fmt.Errorf("%s", p.end())
	}
	return nil
}

func checkShutdown(ctx context.Context, k *kit) verdict {
	const next = "serve plugin.GRPCController/Shutdown: respond first, then exit with status 0"
	p, err := k.launch(ctx)
	if err != nil {
		return broken(err)
	}
	defer p.kill()
	if !k.failed["configure.accepts"] {
		if err := k.configure(ctx, p, k.configuration()); err != nil {
			return broken(err)
		}
	}
	family := p.descendants()
	began := time.Now()
	if err := k.shutdown(ctx, p); err != nil {
		return failed(next, "%v", err)
	}
	took := time.Since(began).Round(time.Millisecond)
	s := &remains{sockets: p.sockets()}
	family = slices.DeleteFunc(family, func(pid int) bool { return !alive(pid) })
	s.alive = slices.Compact(slices.Sorted(slices.Values(append(family, p.marked()...))))
	for _, pid := range s.alive {
		killPID(pid)
	}
	k.shut = s
	return passed("status 0 after %v", took)
}

func checkShutdownSocket(_ context.Context, k *kit) verdict {
	if left := k.shut.sockets; len(left) > 0 {
		return failed("close the listener, which removes the socket, before the process exits", "left behind: %s", strings.Join(left, ", "))
	}
	return passed("the folder is empty")
}

func checkShutdownChildren(_ context.Context, k *kit) verdict {
	if !treeSupported {
		return skipped("", "processes can't be listed on this system")
	}
	if left := k.shut.alive; len(left) > 0 {
		return failed("start processes through the host's Spawn, which ends them, or end them before the plugin exits", "still running: PID %s", strings.Trim(fmt.Sprint(left), "[]"))
	}
	return passed("none left")
}

// startForEnd starts a process that is to be ended abruptly, with a running call if there is an example that waits.
func (k *kit) startForEnd(ctx context.Context) (p *process, how string, err error) {
	if k.failed["configure.accepts"] {
		p, err = k.launch(ctx)
		return p, "idle", err
	}
	if p, err = k.fresh(ctx); err != nil {
		return nil, "", err
	}
	if k.manifest.Kind == contract.KindTool && k.waiting() >= 0 {
		if running, err := k.wait(ctx, p, nil); err == nil && running != nil {
			return p, "during a call", nil
		}
	}
	return p, "idle", nil
}

// ends calls do on a process, which must then end within limit.
func (k *kit) ends(ctx context.Context, limit time.Duration, next string, do func(*process)) verdict {
	p, how, err := k.startForEnd(ctx)
	if err != nil {
		return broken(err)
	}
	defer p.kill()
	began, family := time.Now(), p.descendants()
	defer func() {
		for _, pid := range family {
			if p.dead() && alive(pid) { // orphans; their PIDs can't have been reused so soon
				killPID(pid)
			}
		}
	}()
	do(p)
	if !p.wait(limit + k.cfg.Slack) {
		return failed(next, "%s: still running after %v", how, limit)
	}
	return passed("%s: after %v: %s", how, time.Since(began).Round(time.Millisecond), p.cmd.ProcessState)
}

func checkSIGTERM(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, exitTimeout, "clean up and exit on SIGTERM",
		func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) })
}

func checkLifeline(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, orphanTimeout, "keep reading the descriptor in "+wire.LifelineEnv+" after the first line, and exit at the end of the file even if calls are running",
		func(p *process) { _ = p.life.Close() })
}

func checkHostKilled(ctx context.Context, k *kit) verdict {
	return k.ends(ctx, orphanTimeout, "write nothing when exiting that can fail or block, since stdout and stderr are closed",
		func(p *process) { p.disconnect() })
}

func checkRestarts(ctx context.Context, k *kit) verdict {
	want := k.cfg.Restarts
	if want <= 0 {
		want = defaultRestarts
	}
	k.host.KillAll() // what earlier checks left may still write files
	began, base := time.Now(), 0
	for n := 1; n <= want; n++ {
		if n > minRestarts && k.cfg.Restarts <= 0 && time.Since(began) > restartTime {
			want = n - 1
			break
		}
		if err := k.restart(ctx); err != nil {
			return failed("find out what differs from the first start", "start %d: %v", n, err)
		}
		if n == 1 {
			base = k.countFiles()
		}
	}
	k.figures.Restarts = want
	if more := k.countFiles() - base; more >= want-1 && more > 0 {
		return failed("remove the files that each start creates in the temporary, data and cache folders, or give them fixed names", "%d starts left %d files behind", want-1, more)
	}
	return passed("%d starts", want)
}

func (k *kit) restart(ctx context.Context) error {
	p, err := k.launch(ctx)
	if err != nil {
		return err
	}
	defer p.kill()
	if !k.failed["configure.accepts"] {
		if err := k.configure(ctx, p, k.configuration()); err != nil {
			return err
		}
	}
	return k.shutdown(ctx, p)
}

// countFiles counts the files in the folders that the plugin may write to.
func (k *kit) countFiles() int {
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
