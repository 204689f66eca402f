package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

// cassetteFlags select the cassette to record to or replay from.
type cassetteFlags struct{ record, replay string }

func (c *cassetteFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.record, "record", "", "record the exchange with the model's provider in the new `FILE`; keys are redacted")
	cmd.Flags().StringVar(&c.replay, "replay", "", "replay the answers recorded in `FILE`; needs neither network nor key")
	console.Exclusive(cmd, "record", "replay")
}

// load sets record or replay in the block of the model's provider, as -c would. With CI=true, an existing cassette is replayed
// instead of being recorded.
func (c *cassetteFlags) load(ctx context.Context, a *app, f *execFlags) error {
	attribute, path := "replay", c.replay
	if c.record != "" {
		attribute, path = "record", c.record
	}
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	if ci, _ := a.LookupEnv("CI"); ci == "true" {
		attribute = "replay"
	}
	_, err := os.Stat(path)
	switch {
	case attribute == "record" && err == nil:
		return console.UsageError{Text: fmt.Sprintf("the recording %s already exists", path), Next: "delete it to record again, or replay it with --replay"}
	case attribute == "replay" && errors.Is(err, fs.ErrNotExist) && c.record != "":
		return console.UsageError{Text: fmt.Sprintf("the recording %s doesn't exist, and none is created if CI=true", path), Next: "record it elsewhere"}
	case attribute == "replay" && errors.Is(err, fs.ErrNotExist):
		return console.UsageError{Text: fmt.Sprintf("the recording %s doesn't exist", path), Next: "create it with --record, or check the path"}
	}
	dir, err := a.WorkDir(f.dir)
	if err != nil {
		return err
	}
	home, err := a.Home()
	if err != nil {
		return err
	}
	cfg, ds := a.ReadConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return err
	}
	m, err := cfg.Find(cmp.Or(f.model, cfg.DefaultModel))
	if err != nil {
		return err
	}
	f.replay = attribute == "replay"
	a.Flags.Sets = append(a.Flags.Sets, fmt.Sprintf("provider[%q].%s=%s", m.Provider, attribute, hclText(path)))
	return nil
}

// hclText quotes a string for HCL.
func hclText(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}
