package e2e_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Threads of testdata/earlier/threads.db.gz: gantry 0.1.0 wrote them in /usr/share before context references were stored as
// digests by section. Their first input was "one" and ~/.gantry/AGENTS.md; the first one was compacted in its second turn.
const (
	earlierCompacted = "01a20d34-f8ab-7023-98a2-8f7bdb9b8d61"
	earlierShort     = "01a20d34-fa36-7e57-86cc-74ea7892e377"
)

// earlier is a rig with the threads of an earlier version, in the surroundings that they were made in.
func earlier(t *testing.T) *rig.Rig {
	t.Helper()
	r := rig.New(t, `
[[step]]
when = { user = "Stop here" }
times = -1
do = [{ text = "so far" }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Dir = "/usr/share"
	r.Env = append(r.Env, "SHELL=/bin/sh", "TZ=UTC")
	r.Write(filepath.Join(r.Home, "AGENTS.md"), "Use tabs.\n")
	return r
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

var onlyDate = regexp.MustCompile(`^<environment_context>\n  <current_date>[0-9-]+</current_date>\n</environment_context>$`)

// dateless are a request's messages without the news that another day has come.
func dateless(q rig.Request) (out []llm.Message) {
	for _, m := range q.Request.Messages {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool {
			t, ok := p.(*llm.Text)
			return ok && onlyDate.MatchString(t.Text)
		})
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// A thread of an earlier version resumes with the requests that the earlier version would have sent: it is told what has changed
// and nothing twice. The files of testdata/earlier were written by that version.
func TestThreadsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"compacted": earlierCompacted, "short": earlierShort} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := earlier(t)
			unpack(t, filepath.Join("testdata", "earlier", "threads.db.gz"), filepath.Join(r.Home, "threads.db"))
			r.OK("resume", id, "nothing has changed")
			r.Write(filepath.Join(r.Home, "AGENTS.md"), "Use spaces.\n")
			r.OK("resume", "-c", "approval.policy=untrusted", id, "the instructions and the approval policy have")
			if err := os.Remove(filepath.Join(r.Home, "AGENTS.md")); err != nil {
				t.Fatal(err)
			}
			r.OK("resume", "-c", "approval.policy=untrusted", id, "the instructions are gone")
			var sent [][]llm.Message
			for _, q := range r.Requests() {
				sent = append(sent, dateless(q))
			}
			got, err := json.MarshalIndent(sent, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "earlier", name+".json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got)+"\n" != string(want) {
				t.Errorf("the model saw:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
