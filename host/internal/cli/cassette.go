package cli

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

	"github.com/spf13/cobra"
)

// cassetteFlags say where a conversation is recorded, or comes from.
type cassetteFlags struct{ record, replay string }

func (c *cassetteFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.record, "record", "", "record the exchange with the model's provider in the new `FILE`; keys are redacted")
	cmd.Flags().StringVar(&c.replay, "replay", "", "replay the answers recorded in `FILE`; needs neither network nor key")
	exclusive(cmd, "record", "replay")
}

// load sets record or replay in the block of the model's provider, as -c would. Where CI=true is set, what would be
// recorded must be there and is replayed.
func (c *cassetteFlags) load(ctx context.Context, a *app, f *execFlags) error {
	attribute, path := "replay", c.replay
	if c.record != "" {
		attribute, path = "record", c.record
	}
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.dir, path)
	}
	if ci, _ := a.env("CI"); ci == "true" {
		attribute = "replay"
	}
	_, err := os.Stat(path)
	switch {
	case attribute == "record" && err == nil:
		return usageError{fmt.Sprintf("the recording %s is there already", path), "delete it to record anew, or replay it with --replay"}
	case attribute == "replay" && errors.Is(err, fs.ErrNotExist) && c.record != "":
		return usageError{fmt.Sprintf("there is no recording %s, and where CI=true is set none is made", path), "record it elsewhere"}
	case attribute == "replay" && errors.Is(err, fs.ErrNotExist):
		return usageError{fmt.Sprintf("there is no recording %s", path), "make it with --record, or check the path"}
	}
	dir, err := a.workDir(f.dir)
	if err != nil {
		return err
	}
	home, err := a.home()
	if err != nil {
		return err
	}
	cfg, ds := a.readConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return err
	}
	m, err := cfg.Find(cmp.Or(f.model, cfg.DefaultModel))
	if err != nil {
		return err
	}
	f.replay = attribute == "replay"
	a.flags.sets = append(a.flags.sets, fmt.Sprintf("provider[%q].%s=%s", m.Provider, attribute, hclText(path)))
	return nil
}

// hclText is a text as it stands in a file.
func hclText(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}
