package attacks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// athome are the rows about keys where gantry works in the user's home, or above it.
var athome = []row{
	{id: "D10", attempt: "start gantry in the home, or in a folder above it", required: "refused or asked", codex: "",
		ours: "refused, unless `writable_roots` names it", flow: startedAtHome},
	{id: "D11", attempt: "with the home among `writable_roots`: read and list keys", required: "denied", codex: "", ours: "hidden as elsewhere", flow: keysAtHome},
	{id: "D12", attempt: "with the home among `writable_roots`: change keys and the settings beside them, move them away, make those that are missing", required: "denied, or moved aside", codex: "", ours: "denied; what was made is moved aside", flow: keysMadeAtHome},
	{id: "D13", attempt: "the same with a folder above the home", required: "as D11, D12", codex: "", ours: "denied", flow: keysAboveHome},
	{id: "D14", attempt: "work in a folder of keys, or below one", required: "that one alone is seen", codex: "", ours: "that folder is visible; other keys stay hidden", flow: amongKeys},
	{id: "D15", attempt: "`AGENTS.md` of another user in a folder above that all may write", required: "not used", codex: "", ours: "not used, and the user is told", tests: []string{"host/internal/prompt/agentsfile TestFilesOfOthers"}},
	{id: "D16", attempt: "`gantry.hcl`, rules or hooks that other users may write", required: "refused or warned of", codex: "", ours: "the user is told which file, and what to do", flow: writableByOthers,
		tests: []string{"config TestFilesThatOthersMayWrite"}},
	{id: "D17", attempt: "keys, gantry's own folder and what is denied by another mount of the same folder", required: "denied", codex: "", ours: "other mounts are found by device and root; snapshots of a file system are other files", flow: mountedAgain,
		tests: []string{"host/internal/launch/box/fspath TestOtherPaths"}},
	{id: "D18", attempt: "a file that `file()` reads into a key, or that `command()` hands to a program: in the home, in the working folder, by a link, as a plugin's process", required: "denied", codex: "", ours: "hidden as other keys are", flow: keyFilesOfSettings,
		tests: []string{"config TestKeyFiles"}},
	{id: "D19", attempt: "have a command run, a server for example, while the user saves keys: new, by rename, in new folders, by links, what `deny_read` names; the same as a plugin", required: "not read", codex: "read", escaped: true,
		ours: "covered in the sandbox that runs, milliseconds after it has appeared", flow: keysMadeLater, tests: []string{"host/internal/launch/box TestLateKeysAreHidden", "host/internal/launch/box TestLateKeysAreHiddenFromPlugins"}},
	{id: "D20", attempt: "have such a cover not be laid, or elsewhere: links and renamed folders where the home may be written, a mount at the name, an unreadable program", required: "not read", codex: "", ours: "laid on the very file, from outside of the sandbox's processes",
		tests: []string{"host/internal/launch/box TestCoverAppliesToTheSameFile", "host/internal/launch/box TestCoverCannotBePrevented"}},
	{id: "D21", attempt: "keys of other agents, browsers, databases, clouds and package managers, by a command or by a plugin's process", required: "denied", codex: "", tries: []try{
		{do: otherKeys}, {do: otherKeys, box: "read-only"}, {do: otherKeys, box: "network"}, {do: otherKeys, box: caged}, {do: otherKeys, box: networked},
	}},
	{id: "D22", attempt: "remove or replace a link that a pattern of `deny_read` or `deny_write` stands for, move the folder that it leads to, write what is kept by a hard link", required: "denied", codex: "", ours: "what links have led to stays denied while gantry runs, and in its place; other names of a file are kept as well",
		tests: []string{"host/internal/launch/box TestTargetsOfRemovedLinksStayDenied"}},
	{id: "D23", attempt: "have `gantry review` show the model a tracked file that `deny_read` names: changed, renamed, in a commit, in a merge", required: "not shown", codex: "", ours: "left out of the diff, with a line that names it",
		tests: []string{"host/internal/review TestDeniedFilesAreLeftOut", "e2e TestReviewLeavesOutWhatIsDenied"}},
}

// moreKeys are files with keys, in the home.
var moreKeys = []string{
	".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json", ".mozilla/firefox/x.default/logins.json", ".config/google-chrome/Default/Cookies", ".config/chromium/Default/Login Data",
	".config/rclone/rclone.conf", ".pgpass", ".my.cnf", ".config/github-copilot/hosts.json", ".gem/credentials", ".m2/settings.xml", ".terraformrc", ".vault-token",
}

// otherKeys looks for all of them.
var otherKeys = `cd "$HOME" && cat '` + strings.Join(moreKeys, "' '") + `' 2>/dev/null | grep SECRET`

// wholeHome runs a script in a sandbox that lets the home be written.
func (w *world) wholeHome(t *testing.T, script string) result {
	t.Helper()
	return w.gantry(t, nil, "sandbox", "-C", w.user, "-c", "sandbox.mode=workspace-write", "-c", `sandbox.writable_roots=["`+w.user+`"]`, "--", "/bin/sh", "-c", script)
}

func startedAtHome(t *testing.T, w *world) {
	f := newFlow(t, w, "start-at-home", "workspace-write", "never")
	f.call("c1", "echo ran > trace")
	f.prepare()
	for _, dir := range []string{f.world.user, f.world.top} {
		f.Dir = dir
		for _, args := range [][]string{{"exec"}, {"sandbox"}} {
			if args[0] == "exec" {
				args = append(append(args, f.args...), "go")
			} else {
				args = append(append(args, f.args[:2]...), "--", "sh", "-c", "echo ran > trace")
			}
			res := f.Gantry(args...)
			if said := strings.ReplaceAll(res.Stdout+res.Stderr, "\n", " "); res.Code == 0 || !strings.Contains(said, "your home") || !strings.Contains(said, "writable_roots") || !strings.Contains(said, "--cd") {
				t.Errorf("%s, %q: status %d, %s", dir, args, res.Code, said)
			}
			if exists(filepath.Join(dir, "trace")) {
				t.Errorf("%s, %q: it ran", dir, args)
			}
		}
		// Where nothing is written, it may be looked at.
		if r := f.world.gantry(t, nil, "sandbox", "-C", dir, "-c", "sandbox.mode=read-only", "--", "echo", "looks"); r.status != 0 {
			t.Errorf("%s: status %d, %s", dir, r.status, r.output)
		}
	}
}

// homeOfKeys is a home with keys of many kinds.
func homeOfKeys(t *testing.T, w *world, name string) *world {
	t.Helper()
	s := w.sub(t, name)
	for _, p := range []string{".ssh/id_rsa", ".aws/credentials", ".kube/config", ".config/gh/hosts.yml", ".npmrc", ".gnupg/key", ".codex/auth.json", ".pgpass", ".mozilla/firefox/x/logins.json", ".config/app/settings"} {
		mkdir(t, filepath.Dir(filepath.Join(s.user, p)))
		if err := os.WriteFile(filepath.Join(s.user, p), []byte("SECRET of the user"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// readsKeys reads them all; ls of what is hidden is empty or refused.
const readsKeys = `cd "$HOME"; cat .ssh/id_rsa .aws/credentials .kube/config .config/gh/hosts.yml .npmrc .netrc .gnupg/key .pgpass .codex/auth.json .mozilla/firefox/x/logins.json; ls .ssh .config/gh; grep -r SECRET . | grep -v .config/app/settings; cat .config/app/settings`

func keysAtHome(t *testing.T, w *world) {
	s := homeOfKeys(t, w, "keys-at-home")
	if r := s.wholeHome(t, readsKeys); strings.Count(r.output, "SECRET") != 1 || strings.Contains(r.output, "id_rsa\n") || strings.Contains(r.output, "hosts.yml\n") {
		t.Errorf("status %d, %s", r.status, r.output)
	}
}

const changesKeys = `cd "$HOME"; echo evil >> .ssh/authorized_keys; echo evil > .ssh/config; echo evil >> .npmrc; echo evil >> .kube/config; echo evil >> .aws/config
mv .ssh .taken; mv .config .taken2; rm -rf .ssh .config/gh .npmrc; mkdir -p .docker/cli-plugins && echo evil > .docker/config.json; echo evil > .git-credentials; mkdir -p .config/gcloud && echo evil > .config/gcloud/x; echo fine > notes`

func (w *world) keysStay(t *testing.T, said string) {
	t.Helper()
	for _, p := range []string{".ssh/authorized_keys", ".ssh/config", ".aws/config", ".taken", ".taken2", ".docker", ".git-credentials", ".config/gcloud"} {
		if exists(filepath.Join(w.user, p)) {
			t.Errorf("%s is there: %s", p, said)
		}
	}
	for _, p := range []string{".ssh/id_rsa", ".npmrc", ".kube/config", ".config/gh/hosts.yml"} {
		if b, err := os.ReadFile(filepath.Join(w.user, p)); err != nil || string(b) != "SECRET of the user" {
			t.Errorf("%s: %q, %v: %s", p, b, err, said)
		}
	}
	if !exists(filepath.Join(w.user, "notes")) {
		t.Errorf("nothing else can be written: %s", said)
	}
}

func keysMadeAtHome(t *testing.T, w *world) {
	s := homeOfKeys(t, w, "keys-made")
	s.keysStay(t, s.wholeHome(t, changesKeys).output)
}

func keysAboveHome(t *testing.T, w *world) {
	s := homeOfKeys(t, w, "keys-above")
	above := []string{"sandbox", "-C", s.ws, "-c", "sandbox.mode=workspace-write", "-c", `sandbox.writable_roots=["` + s.top + `"]`, "-c", `sandbox.deny_read=[]`, "--", "/bin/sh", "-c"}
	// gantry's own folder lies there, too.
	if r := s.gantry(t, nil, append(above, readsKeys+`; cat "$ENGINE/secrets/key"`)...); strings.Count(r.output, "SECRET") != 1 {
		t.Errorf("status %d, %s", r.status, r.output)
	}
	s.keysStay(t, s.gantry(t, nil, append(above, changesKeys)...).output)
}

func amongKeys(t *testing.T, w *world) {
	s := homeOfKeys(t, w, "among-keys")
	for dir, script := range map[string]string{
		filepath.Join(s.user, ".config/gh"):              `cat hosts.yml; echo x > new; cat "$HOME/.ssh/id_rsa" "$HOME/.npmrc"`,
		filepath.Join(s.user, ".mozilla/firefox/x"):      `cat logins.json; echo x > new; cat "$HOME/.ssh/id_rsa" "$HOME/.npmrc"`,
		filepath.Join(s.user, ".config/app/settings/.."): `cat settings; echo x > new; cat "$HOME/.config/gh/hosts.yml" "$HOME/.npmrc"`,
	} {
		if r := s.boxed(t, filepath.Clean(dir), script); strings.Count(r.output, "SECRET") != 1 || !exists(filepath.Join(dir, "new")) {
			t.Errorf("%s: status %d, %s", dir, r.status, r.output)
		}
	}
}

func writableByOthers(t *testing.T, w *world) {
	f := newFlow(t, w, "writable", "workspace-write", "never")
	f.prepare()
	path := filepath.Join(f.Home, "gantry.hcl")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	res := f.OK(append([]string{"exec"}, append(f.args, "go")...)...)
	if said := strings.ReplaceAll(res.Stderr, "\n", " "); !strings.Contains(said, path+" can be written by every user") || !strings.Contains(said, "chmod go-w") {
		t.Errorf("%s", res.Stderr)
	}
}

func mountedAgain(t *testing.T, w *world) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user mounts only in a namespace where root's programs belong to nobody, and gantry makes no sandbox there")
		return
	}
	s := w.sub(t, "mounted-again")
	for _, p := range []string{"mirror", "keys", "mirrored"} {
		mkdir(t, filepath.Join(s.top, p))
	}
	helper, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	around := []string{helper, "--dev-bind", "/", "/", "--bind", s.top, filepath.Join(s.top, "mirror"), "--bind", filepath.Join(s.user, ".ssh"), filepath.Join(s.top, "keys"), "--bind", s.ws, filepath.Join(s.top, "mirrored")}
	script := `cd "$TOP"; cat mirror/user/.ssh/id mirror/user/.netrc keys/id mirror/home/secrets/key mirror/ws/secret.env mirrored/secret.env user/.ssh/id; cat mirror/out/file`
	inTmp, err := os.MkdirTemp("/tmp", "gantry-attacks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(inTmp) })
	mkdir(t, filepath.Join(inTmp, "keys"))
	around = append(around, "--bind", filepath.Join(s.user, ".ssh"), filepath.Join(inTmp, "keys"))
	for _, dir := range []string{s.ws, inTmp} {
		r := s.run(t, s.env(), append(slices.Clone(around), gantry(t), "sandbox", "-C", dir, "-c", "sandbox.mode=workspace-write", "--", "sh", "-c", "cat "+inTmp+"/keys/id")...)
		if strings.Contains(r.output, "SECRET") || r.status == 0 {
			t.Errorf("in %s: status %d, %s", dir, r.status, r.output)
		}
	}
	for _, mode := range []string{"workspace-write", "read-only"} {
		r := s.run(t, s.env(), append(slices.Clone(around), gantry(t), "sandbox", "-C", s.ws, "-c", "sandbox.mode="+mode, "--", "sh", "-c", script)...)
		if strings.Contains(r.output, "SECRET") || !strings.Contains(r.output, "as it was") {
			t.Errorf("%s: status %d, %s", mode, r.status, r.output)
		}
	}
	if r := s.run(t, s.env(), append(slices.Clone(around), "sh", "-c", script)...); strings.Count(r.output, "SECRET") != 7 {
		t.Errorf("it does not work without a sandbox either: %s", r.output)
	}
}

// keyFilesOfSettings reads what the configuration reads keys from, in a command's sandbox and as a plugin.
func keyFilesOfSettings(t *testing.T, w *world) {
	f := newFlow(t, w, "keyed", "workspace-write", "never")
	s := f.world
	for _, p := range []string{"user/.mykey", "user/keys/real", "user/printed", "ws/.key", "ws/text.md"} {
		mkdir(t, filepath.Dir(filepath.Join(s.top, p)))
		if err := os.WriteFile(filepath.Join(s.top, p), []byte("SECRET "+p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("keys/real", filepath.Join(s.user, "link")); err != nil {
		t.Fatal(err)
	}
	block := `
provider "one" {
  source  = "builtin/openai"
  api_key = file("~/.mykey")
}
provider "two" {
  source  = "builtin/compatible"
  base_url = "http://127.0.0.1:1"
  api_key = file("` + filepath.Join(s.ws, ".key") + `")
}
provider "three" {
  source  = "builtin/anthropic"
  api_key = "x${file("~/link")}"
}
provider "four" {
  source  = "builtin/google"
  api_key = command(["cat", "` + filepath.Join(s.user, "printed") + `"])
}
instructions {
  text = file("` + filepath.Join(s.ws, "text.md") + `")
}
`
	const script = `cd "$HOME"; cat .mykey link keys/real printed "$WS/.key"; cat "$WS/text.md"`
	check := func(kind, said string) {
		t.Helper()
		if strings.Count(said, "SECRET") != 1 || !strings.Contains(said, "SECRET ws/text.md") {
			t.Errorf("%s: %s", kind, said)
		}
	}
	f.Config(block)
	f.plugin(t, caged)
	s.home = f.Home
	for _, mode := range []string{"workspace-write", "read-only"} {
		r := s.gantry(t, nil, "sandbox", "-C", s.ws, "-c", "sandbox.mode="+mode, "--", "/bin/sh", "-c", script+`; mv "$WS/.key" "$WS/moved"; cat "$WS/moved"; ln "$HOME/.mykey" "$WS/hardkey"; cat "$WS/hardkey"`)
		check(mode, r.output)
	}
	if r := s.gantry(t, nil, "sandbox", "explain", "-C", s.ws); !strings.Contains(r.output, filepath.Join(s.user, ".mykey")) {
		t.Errorf("it is not explained: %s", r.output)
	}
	f.attack(caged, script)
	f.run(t)
	check("plugin", f.said(t, caged))
}

// keysMadeLater has a command wait for keys that appear while it runs. It ends once none of them can be read, or after a while.
func keysMadeLater(t *testing.T, w *world) {
	s := w.sub(t, "keys-later")
	for _, p := range []string{".npmrc", ".aws/credentials", ".config/gh/hosts.yml"} {
		mkdir(t, filepath.Dir(filepath.Join(s.user, p)))
		if err := os.WriteFile(filepath.Join(s.user, p), []byte("as it was"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const saves = `n=0; until [ -e "$WS/runs" ]; do n=$((n + 1)); [ $n -lt 2000 ] || exit 1; sleep 0.01; done; cd "$HOME"
save() { mkdir -p "$(dirname $1)"; echo SECRET > $1.tmp && mv $1.tmp $1; }
save .npmrc; save .netrc; echo SECRET > .git-credentials; save .docker/config.json; save .kube/config; save .pgpass; save .cargo/credentials.toml; save .config/git/credentials
mkdir new; echo SECRET > new/credentials; mv .aws old; mv new .aws; mkdir new; echo SECRET > new/hosts.yml; mv .config/gh .config/gh.old; mv new .config/gh; : > "$TOP/saved"`
	const waits = `cd "$HOME"; read_all() { cat .npmrc .netrc .git-credentials .docker/config.json .kube/config .pgpass .cargo/credentials.toml .config/git/credentials .aws/credentials .config/gh/hosts.yml 2>/dev/null; }
: > "$WS/runs"; n=0; until [ -e "$TOP/saved" ] && ! read_all | grep -q SECRET; do n=$((n + 1)); [ $n -lt 500 ] || break; sleep 0.01; done; read_all; ls old .aws; echo ends`
	said := make(chan result, 1)
	go func() { said <- s.run(t, s.env(), "sh", "-c", saves) }() // ends with the script
	r := s.boxed(t, s.ws, waits)
	if made := <-said; made.status != 0 {
		t.Errorf("keys were not saved: %s", made.output)
	}
	if strings.Contains(r.output, "SECRET") || !strings.Contains(r.output, "ends\n") {
		t.Errorf("status %d, %s", r.status, r.output)
	}
}
