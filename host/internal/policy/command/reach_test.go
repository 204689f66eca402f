package command

import "testing"

// What a rule for the first words says nothing about.
func TestReaches(t *testing.T) {
	for _, tc := range []struct {
		script string
		n      int
		want   bool
	}{
		{"git fetch origin", 2, false}, {"git fetch --upload-pack=x", 2, true}, {"git fetch --upload-pack x", 2, true}, {"git fetch --up=x", 2, true},
		{"git -c alias.x=!id x", 1, true}, {"git -calias.x=!id x", 1, true}, {"git switch -c new", 2, false}, {"git clone -c a=b u", 2, true}, {"git clone -u x u", 2, true},
		{"git push -u origin main", 2, false}, {"git rebase -x id", 2, true}, {"git clean -x", 2, false}, {"git grep -Ovi x", 2, true}, {"git pull ext::x", 2, true},
		{"git submodule foreach id", 2, true}, {"git bisect run id", 2, true}, {"git log --output=f", 2, true}, {"git log --oneline", 2, false}, {"git pull $x", 2, true},
		{"find . -name x", 1, false}, {"find . -exec id ;", 1, true}, {"find . -ok id ;", 2, true}, {"find . -delete", 2, true}, {"fd x -x id", 1, true}, {"fdfind x -X id", 1, true},
		{"tar -xf a", 1, false}, {"tar xf a", 1, false}, {"tar xIf id a", 1, true}, {"tar -I id -xf a", 1, true}, {"tar xf a --to-command=id", 1, true}, {"tar xf a --checkpoint-ac=exec=id", 1, true},
		{"rsync -a a b", 1, false}, {"rsync -ae id a b", 1, true}, {"rsync --rsh=id a b", 1, true}, {"ssh host ls", 2, false}, {"ssh host -oProxyCommand=id", 2, true}, {"scp -S id a b:", 1, true},
		{"awk -F, '{print}' f", 1, true}, {"awk -F, '{print}' f", 3, false}, {"awk -F, '{print}' -f x", 3, true}, {"sed -n 1p f", 1, true}, {"sed -n 1p f", 2, true}, {"sed -n 1p f", 3, false},
		{"sed -n 1p f --expr=1e", 3, true}, {"vim -c '!id' f", 1, true}, {"vim '+!id' f", 1, true}, {"vim f", 1, false}, {"/usr/bin/find . -exec id", 1, true}, {"sort --comp=id f", 1, true},
		{"go test -exec id", 2, true}, {"go test ./...", 2, false}, {"make -j2", 1, false}, {"ls -exec", 1, false}, {"find", 1, false}, {"rg --pre id x", 1, true},
	} {
		commands, ok := Plain(tc.script)
		if !ok {
			commands = Extract([]string{"bash", "-c", tc.script}).Commands[1:2]
		}
		if got := Reaches(commands[0], tc.n); got != tc.want {
			t.Errorf("%q behind %d: %v", tc.script, tc.n, got)
		}
	}
}
