package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// oddMode makes the test binary a plugin of these tests, built as any plugin is: with sdk alone.
const oddMode = "ODD_PLUGIN"

func TestMain(m *testing.M) {
	if mode := os.Getenv(oddMode); mode == "declares" {
		os.Exit(declares())
	} else if mode != "" {
		tool.Main(odd(mode))
	}
	if os.Getenv(hostileMCPMode) != "" {
		os.Exit(serveHostileMCP())
	}
	switch os.Getenv(mcpMode) {
	case "":
		os.Exit(m.Run())
	case vectorMode:
		os.Exit(serveVectors())
	case attackMode:
		os.Exit(serveAttacks())
	default:
		os.Exit(serveMCP())
	}
}

type oddConfig struct {
	Greeting string `json:"greeting" doc:"What the tool says." default:"hello"`
	Style    string `json:"style" doc:"How it says it." default:"plain" enum:"plain,loud"`
}

type fileArgs struct {
	File string `json:"file" jsonschema:"a file that says when to go on"`
}

// odd is a plugin with tools that misbehave; in the mode "waits" one with a tool that waits, in the mode "speaks" one that
// speaks in its threads, in the mode "samples" one that asks the model, in the
// mode "tells" one that has texts for it, in the mode "warns" one that warns of its block, in the mode "acts" one whose tools say of their calls what the test wants, in the modes "takes" and "asks for all" one that uses all of the host's services, in the mode "reaches" one that acts in its own process, in the mode "calls out" one that reaches services through the host, in the mode "narrow" one that starts processes with less than its calls, in the mode "commands" one that has commands, in the mode "steals" one that wants what is others', in the modes "paints" and "paints in the dark" one with a canvas that is shown or not, in the mode "conforms" one with the tools of a suite, in the modes "desk" and
// "shelf" ones that work.
func odd(mode string) tool.Plugin {
	switch mode {
	case "waits":
		return waits()
	case "speaks":
		return speaks()
	case "samples":
		return samples()
	case "tells":
		return tells()
	case "steals":
		return steals()
	case "desk":
		return desk()
	case "shelf":
		return shelf()
	case "warns":
		return warns()
	case "servers":
		return servers()
	case "reaches":
		return reaches()
	case "narrow":
		return narrowed()
	case "calls out":
		return callsOut("network", "ask", "secrets")
	case "calls out undeclared":
		return callsOut()
	case "commands":
		return commands()
	case "lists":
		return lists()
	case "keeps":
		return keeps()
	case "serves":
		return serves()
	case "acts":
		return acts()
	case "paints":
		return paints(true)
	case "paints in the dark":
		return paints(false)
	case "takes":
		return takes()
	case "asks":
		return clerk()
	case "conforms":
		return conforms()
	case "asks for all":
		return takes("ask", "call-tools", "sample", "secrets", "spawn", "state")
	}
	cfg := &oddConfig{}
	p := tool.Plugin{
		Name: "odd", Version: "1.0.0", Description: "Misbehaves.", Config: cfg,
		Limits: contract.Limits{CallMS: 2000}, // which a busy machine does not use up by itself
		Tools: []tool.Tool{
			tool.New("odd_fine", "Answers.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				return tool.Text(cfg.Greeting + " from " + mode), nil
			}, tool.ReadOnly()),
			tool.New("odd_crash", "Ends the process in the middle of the call.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				fmt.Fprintln(os.Stderr, "the sky is falling")
				os.Exit(3)
				return nil, nil
			}),
			tool.New("odd_panic", "Panics in a goroutine of its own.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				go panic("a nil map, perhaps") // owned by nobody: that is what is wrong with it
				select {}
			}),
			tool.New("odd_late", "Answers when its deadline is long over.", func(_ context.Context, c *tool.Call, in fileArgs) (*tool.Result, error) {
				waitFor(filepath.Join(c.Cwd(), in.File))
				return tool.Text("too late"), nil
			}),
		},
	}
	return p
}

func waits() tool.Plugin {
	self := rand.Text() // in a PID namespace of its own every process is number 1
	return tool.Plugin{
		Name: "waits", Version: "1.0.0", Description: "Waits.",
		Tools: []tool.Tool{
			tool.New("wait_for", "Waits for a file.", func(_ context.Context, c *tool.Call, in fileArgs) (*tool.Result, error) {
				file := filepath.Join(c.Cwd(), in.File)
				if err := os.WriteFile(file+".waiting", []byte(self), 0o644); err != nil {
					return nil, err
				}
				waitFor(file)
				return tool.Text("waited in " + self), nil
			}, tool.ParallelSafe()),
		},
	}
}

// speaks is a plugin that has something to say outside any call: when a thread opens, and when it is too late.
func speaks() tool.Plugin {
	return tool.Plugin{
		Name: "speaks", Version: "1.0.0", Description: "Speaks.",
		Tools: []tool.Tool{
			tool.New("nothing", "Does nothing.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				return tool.Text("nothing"), nil
			}, tool.ReadOnly()),
		},
		Thread: func(ctx context.Context, th *tool.Thread) error {
			if err := th.Emit(ctx, "thread.seen", map[string]string{"cwd": th.Cwd()}, true); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(th.Cwd(), "spoke"), nil, 0o644); err != nil {
				return err
			}
			<-ctx.Done()
			late := th.Emit(context.WithoutCancel(ctx), "too.late", nil, true)
			return os.WriteFile(filepath.Join(th.Cwd(), "late"), []byte(fmt.Sprint(late)), 0o644)
		},
	}
}

// warns is a plugin that works with its block and has something to say of it.
func warns() tool.Plugin {
	return tool.Plugin{
		Name: "warns", Version: "1.0.0", Description: "Warns.",
		Configured: func(context.Context, *tool.Env) error {
			return &contract.Diagnostic{Severity: contract.SeverityWarning, Summary: "units is going away", Next: "write unit"}
		},
		Tools: []tool.Tool{
			tool.New("nothing", "Does nothing.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				return tool.Text("nothing"), nil
			}, tool.ReadOnly()),
		},
	}
}

// samples is a plugin that asks the model a question of its own in a call, twice at once.
func samples() tool.Plugin {
	return tool.Plugin{
		Name: "samples", Version: "1.0.0", Description: "Asks the model.", Capabilities: []string{"sample"},
		Tools: []tool.Tool{
			tool.New("think", "Thinks twice.", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				question := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "a question"}}}}}
				var work sync.WaitGroup
				var answers [2]string
				var errs [2]error
				for i := range answers {
					work.Go(func() {
						s, err := c.Sample(ctx, question)
						if errs[i] = err; err == nil {
							answers[i] = s.Message.Text()
						}
					})
				}
				work.Wait()
				return tool.Text(strings.Join(answers[:], " and ")), errors.Join(errs[:]...)
			}, tool.ReadOnly()),
		},
	}
}

type tellArgs struct {
	Text string `json:"text,omitempty"`
}

// tells is a plugin that sets a text for the model. That the host has it is seen by the session behind it.
func tells() tool.Plugin {
	return tool.Plugin{
		Name: "tells", Version: "1.0.0", Description: "Tells.",
		Tools: []tool.Tool{
			tool.New("tell", "Sets a text.", func(_ context.Context, c *tool.Call, in tellArgs) (*tool.Result, error) {
				c.Thread().Context("page", in.Text)
				c.Thread().OpenSession(c.ID(), c.ID(), "behind the text").Exited(0)
				return tool.Text("told"), nil
			}, tool.ReadOnly()),
		},
	}
}

// waitFor waits until a file is there: the plugin has no other way to hear from the test.
func waitFor(path string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		<-tick.C
	}
}

// addOdd configures the test binary as a plugin and locks it. What a binary says about itself is known by its content, so
// each mode is a file of its own.
func addOdd(t testing.TB, r *rig.Rig, label, mode, more string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program(label, fmt.Sprintf("#!/bin/sh\n%s=%q exec %q \"$@\"\n", oddMode, mode, self))
	// Whether its tools are asked about is for other tests.
	r.Config(fmt.Sprintf("plugin %q {\n  source = %q\n  approval = \"approve\"\n  permissions {\n    write = [%q]\n    read = [%q]\n  }\n%s}\n", label, program, r.Dir, self, more))
	r.OK("plugin", "lock", "--yes", label)
}

// unlock forgets what was locked.
func unlock(t *testing.T, r *rig.Rig) {
	t.Helper()
	if err := os.Remove(filepath.Join(r.Home, "gantry.lock.hcl")); err != nil {
		t.Fatal(err)
	}
}
