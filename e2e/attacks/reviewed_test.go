package attacks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// reviewed are the rows about a repository that is hostile to whoever has it reviewed.
var reviewed = []row{
	{id: "E9", attempt: "`gantry review` in a repository with a filter (`filter.x.clean`)", required: "runs nothing outside", codex: "", ours: notOutside, flow: review(trap{
		config: "[filter \"x\"]\n\tclean = %s\n\trequired = true\n", attributes: "* filter=x\n", shown: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
	{id: "E10", attempt: "the same with a filter that serves many files (`filter.x.process`)", required: "runs nothing outside", codex: "", ours: notOutside, flow: review(trap{
		config: "[filter \"a.b\"]\n\tprocess = %s\n\tclean = %[1]s\n\trequired = true\n", attributes: "* filter=a.b\n", shown: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
	{id: "E11", attempt: "the same in a submodule", required: "runs nothing outside", codex: "", ours: "git does not look into changed submodules", flow: review(trap{
		config: "[filter \"x\"]\n\tclean = %s\n", attributes: "* filter=x\n", submodule: true, shown: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
	{id: "E12", attempt: "the same with `log.showSignature` and `gpg.program`, for a signed commit", required: "runs nothing", codex: "", ours: "signatures are not looked at", flow: review(trap{
		config: "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = %s\n[gpg \"ssh\"]\n\tprogram = %[1]s\n[gpg \"x509\"]\n\tprogram = %[1]s\n", signed: true, args: []string{"--commit", "HEAD"}, shown: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
	{id: "E13", attempt: "the same with an object that is missing, and a remote that promises it (`uploadpack`)", required: "runs nothing", codex: "", ours: "nothing is fetched; the review fails", flow: review(trap{
		config: "[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\turl = .\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\tuploadpack = %s\n", missing: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
	{id: "E14", attempt: "the same with a `git` in the folder, that comes first in PATH, as `.` and by its path", required: "runs nothing of it", codex: "", ours: "git is looked up in absolute folders outside of the project", flow: review(trap{
		program: "git", path: true, shown: true,
	})},
	{id: "E15", attempt: "the same with textconv, an external diff, fsmonitor, hooks, a pager, drivers for merges, aliases", required: "runs nothing", codex: "", ours: "all of them are turned off", flow: review(trap{
		config:     "[diff]\n\texternal = %s\n[diff \"x\"]\n\ttextconv = %[1]s\n\tcommand = %[1]s\n[core]\n\tfsmonitor = %[1]s\n\tpager = %[1]s\n\tsshCommand = %[1]s\n[merge \"x\"]\n\tdriver = %[1]s\n[alias]\n\tdiff = !%[1]s\n[pager]\n\tdiff = %[1]s\n",
		attributes: "* diff=x merge=x\n", hooks: true, shown: true,
	}), tests: []string{"host/internal/review TestNothingOfTheRepositoryRuns"}},
}

const notOutside = "git runs in a sandbox that writes nothing and has no network; where none can be made, filters don't run"

// trap is how a repository names a program.
type trap struct {
	config, attributes string
	program            string   // its name; empty: evil
	args               []string // of the review
	submodule          bool     // the settings are those of a submodule
	signed, missing    bool     // the commit has a signature, an object of it is not there
	hooks, path        bool     // hooks are the program, too; the folder is in PATH
	shown              bool     // the review has to work
}

// review has a hostile repository reviewed, with a sandbox and on a machine that has none.
func review(x trap) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		name := x.program
		if name == "" {
			name = "evil"
		}
		f := newFlow(t, w, "review-"+strings.TrimPrefix(filepath.Base(t.Name()), "/"), "full-access", "never")
		f.prepare()
		s := f.world
		repo := filepath.Join(s.top, "repo")
		s.program(t, repo, name)
		env := append(f.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GANTRY_LOG=off")
		git := func(dir string, args ...string) string {
			t.Helper()
			cmd := exec.Command("git", append([]string{"-C", dir, "-c", "commit.gpgSign=false", "-c", "protocol.file.allow=always"}, args...)...)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("git %q: %v\n%s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		put := func(p, text string) {
			t.Helper()
			mkdir(t, filepath.Dir(p))
			f, err := os.OpenFile(p, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o755)
			if err == nil {
				_, err = f.WriteString(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		git(repo, "init", "-q")
		settings, marked := filepath.Join(repo, ".git/config"), repo
		put(filepath.Join(repo, "a.txt"), "one\n")
		if x.submodule {
			other := filepath.Join(s.top, "other")
			mkdir(t, other)
			git(other, "init", "-q")
			put(filepath.Join(other, "b.txt"), "one\n")
			git(other, "add", ".")
			git(other, "commit", "-q", "-m", "x")
			git(repo, "submodule", "--quiet", "add", other, "sub")
			settings, marked = filepath.Join(repo, ".git/modules/sub/config"), filepath.Join(repo, "sub")
			if err := os.WriteFile(filepath.Join(marked, "b.txt"), []byte("two\n"), 0o644); err != nil { // of the same size: git has to read it
				t.Fatal(err)
			}
		}
		git(repo, "add", ".")
		git(repo, "commit", "-q", "-m", "first")
		if x.signed {
			raw := git(repo, "cat-file", "commit", "HEAD")
			head, text, _ := strings.Cut(raw, "\n\n")
			put(filepath.Join(s.top, "commit"), head+"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\n"+text+"\n")
			git(repo, "reset", "-q", "--soft", git(repo, "hash-object", "-w", "-t", "commit", filepath.Join(s.top, "commit")))
		}
		if x.missing {
			blob := git(repo, "rev-parse", "HEAD:a.txt")
			if err := os.Remove(filepath.Join(repo, ".git/objects", blob[:2], blob[2:])); err != nil {
				t.Fatal(err)
			}
		}
		put(filepath.Join(marked, ".gitattributes"), x.attributes)
		put(filepath.Join(repo, "a.txt"), "two\n")
		put(settings, strings.NewReplacer("%s", filepath.Join(repo, name), "%[1]s", filepath.Join(repo, name)).Replace(x.config))
		if x.hooks {
			for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc", "post-checkout"} {
				put(filepath.Join(repo, ".git/hooks", hook), "#!/bin/sh\nexec "+filepath.Join(repo, name)+"\n")
			}
		}
		paths := []string{os.Getenv("PATH")}
		if x.path {
			paths = []string{".:" + paths[0], repo + ":" + paths[0], ":" + paths[0]}
		}
		helper, err := exec.LookPath("bwrap")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			for _, around := range [][]string{nil, {helper, "--dev-bind", "/", "/", "--ro-bind", "/dev/null", helper, "--"}} {
				argv := append(append(around, gantry(t), "review", "-C", repo, "-c", "sandbox.mode=full-access"), x.args...)
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Dir, cmd.Env = repo, append(env, "PATH="+path)
				out, err := cmd.CombinedOutput()
				if x.shown && err != nil || x.missing && err == nil {
					t.Errorf("%q, PATH=%s: %v\n%s", argv, path, err, out)
				}
				if got := s.traces(t); len(got) > 0 {
					t.Errorf("%q, PATH=%s: these ran: %q\n%s", argv, path, got, out)
				}
			}
		}
	}
}
