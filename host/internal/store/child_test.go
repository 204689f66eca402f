package store_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// childEnv makes the test binary act as another host process. It contains a childConfig as JSON.
const childEnv = "GANTRY_STORE_TEST_CHILD"

type childConfig struct {
	Path   string
	Source string // address of a server; empty: the database is a file
	// Mode is what the child does until it is killed or its standard input ends: "journal" appends batches with barriers and
	// prints the number of the last event after each barrier; "busy" does the same but prints only one line; "lock" locks the
	// thread; "lease" acquires a lease and prints its token.
	Mode   string
	Thread event.ThreadID
}

// childOf returns the configuration of a child that uses the same database.
func childOf(cfg store.Config, c childConfig) childConfig {
	c.Path, c.Source = cfg.Path, cfg.Database.Source
	return c
}

func (c childConfig) database() store.Database {
	if c.Source == "" {
		return store.Database{}
	}
	return store.Database{Driver: postgres.Driver{}, Source: c.Source}
}

// childMain is the child's main function.
func childMain(text string) int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // owned by the process, which ends soon after
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		cancel()
	}()
	if err := childRun(ctx, cfg); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childRun(ctx context.Context, cfg childConfig) error {
	if cfg.Mode == "lease" {
		state, err := pluginstate.Open(ctx, cfg.database().Config(cfg.Path), filepath.Dir(cfg.Path))
		if err != nil {
			return err
		}
		lease, err := state.Acquire(ctx, "plugin", "name", "child", 0)
		if err != nil {
			return err
		}
		fmt.Println(lease.Token)
		<-ctx.Done()
		return state.Close()
	}
	s, err := store.Open(ctx, store.Config{Path: cfg.Path, Database: cfg.database(), HostVersion: "child"})
	if err != nil {
		return err
	}
	if cfg.Mode == "lock" {
		if _, err := s.LockThread(ctx, cfg.Thread); err != nil {
			return err
		}
		fmt.Println("locked")
		<-ctx.Done()
		return nil
	}
	thread := cfg.Thread
	if thread == "" {
		thread = event.NewThreadID()
	}
	next := forever(thread)
	for n := 1; ; n++ {
		var last event.Event
		for range 1 + n%7 {
			last = next()
			if err := s.Append(ctx, last); err != nil {
				return err
			}
		}
		if err := s.Barrier(ctx, thread, last.Seq); err != nil {
			return err
		}
		if cfg.Mode == "journal" || n == 1 {
			fmt.Println(last.Seq)
		}
	}
}

// child is a running child.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
	err *strings.Builder
}

func startChild(tb testing.TB, cfg childConfig) *child {
	tb.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe), err: new(strings.Builder)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = c.err
	if _, err := c.cmd.StdinPipe(); err != nil { // ends with this process
		tb.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.kill(tb) })
	return c
}

// line waits for the child's next line.
func (c *child) line(tb testing.TB) string {
	tb.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		_ = c.cmd.Wait()
		tb.Fatalf("child: %v\n%s", err, c.err)
	}
	return strings.TrimSpace(s)
}

// kill ends the child with SIGKILL and returns what it has printed and was not read.
func (c *child) kill(tb testing.TB) []string {
	tb.Helper()
	if c.cmd.ProcessState != nil {
		return nil
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatal(err)
	}
	var rest []string
	for {
		s, err := c.out.ReadString('\n')
		if err != nil {
			break // an incomplete line is ignored
		}
		rest = append(rest, strings.TrimSpace(s))
	}
	_ = c.cmd.Wait() // "signal: killed"
	return rest
}

// storyTurns returns a function for the n-th event of an endless story.
func storyTurns(thread event.ThreadID) func(n int) event.Event {
	story := storetest.Story(thread, 1)
	turn := story[1:]
	return func(n int) event.Event {
		if n == 1 {
			return story[0]
		}
		e := turn[(n-2)%len(turn)]
		e.Time = e.Time.Add(time.Duration(n) * time.Second)
		e.Turn = event.TurnID(fmt.Sprintf("%s-turn-%d", thread, (n-2)/len(turn)+1))
		switch b := e.Body.(type) {
		case event.ItemStarted:
			b.Item.ID = event.ItemID(fmt.Sprintf("%s-%d", e.Turn, (n-2)%len(turn)))
			e.Body = b
		case event.ItemCompleted:
			b.Item.ID = event.ItemID(fmt.Sprintf("%s-%d", e.Turn, (n-2)%len(turn)))
			e.Body = b
		}
		return e
	}
}
