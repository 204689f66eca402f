package thread

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Restore runs f, which restores files and publishes that, and tells the model about the returned paths. It returns [ErrBusy]
// while a turn runs.
func (t *Thread) Restore(ctx context.Context, f func(context.Context) (paths []string, err error)) error {
	return t.runExclusive(ctx, func(ctx context.Context) error {
		if err := t.bus.flush(ctx); err != nil {
			return err
		}
		paths, err := f(ctx)
		if len(paths) == 0 {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		m := restored(paths)
		seq, told := t.bus.Publish(ctx, "", event.HistoryAdded{Messages: []llm.Message{m}})
		if told == nil {
			t.history.Append(m)
			told = t.bus.Barrier(ctx, seq)
		}
		if told != nil { // the files have been restored; a resumed thread repeats the message
			t.cfg.Logger.Error("restored files not stored", "thread", t.cfg.ID, "err", told)
		}
		return err
	})
}

// maxRestoredShown is how many files are named to the model.
const maxRestoredShown = 50

// restored tells the model that files no longer have the content it wrote.
func restored(paths []string) llm.Message {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	var b strings.Builder
	b.WriteString("<" + history.FilesRestored + ">\nThe user has undone changes of files that were made in this conversation. These files are not " +
		"what they were made any more: read them before you go on with them.\n")
	for i, p := range paths {
		if i == maxRestoredShown {
			fmt.Fprintf(&b, "and %d more\n", len(paths)-i)
			break
		}
		b.WriteString(strings.ToValidUTF8(strings.NewReplacer("\n", " ", "<", " ", ">", " ").Replace(p), "\uFFFD") + "\n")
	}
	b.WriteString("</" + history.FilesRestored + ">")
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: b.String()}}}
}

func isRestoredNotice(m llm.Message) bool {
	return m.Role == llm.RoleUser && strings.HasPrefix(m.Text(), "<"+history.FilesRestored+">")
}
