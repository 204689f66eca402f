package plugintest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

func checkBinary(ctx context.Context, k *kit) verdict {
	if err := notExecutable(k.path); err != nil {
		return failed("build the plugin and make it executable; a script needs a first line that begins with #!", "%v", err)
	}
	p, err := k.byHand(ctx, []string{"--version"}, nil)
	if p == nil {
		return failed("build it for this machine; a script needs a first line that names its interpreter", "%v", err)
	}
	return passed("%s", k.path)
}

func checkCookie(ctx context.Context, k *kit) verdict {
	const next = "without the cookie in " + wire.CookieKey + ": say on stderr what the program is for, exit with status 1"
	p, err := k.byHand(ctx, nil, nil)
	if err != nil {
		return failed(next, "%v", err)
	}
	said := p.stderr.text()
	switch {
	case p.exitCode() != 1:
		return failed(next, "%s", p.end())
	case p.stdout.Len() > 0:
		return failed(next, "it wrote to stdout, which belongs to the handshake: %s", quote(p.stdout.String()))
	case !readable(said):
		return failed(next, "exit status 1, but no readable hint on stderr: %s", quote(said))
	}
	return passed("exit status 1 and the hint %s", quote(strings.TrimSpace(said)))
}

// readable demands a sentence: a few words, nothing that a terminal would take for a command.
func readable(s string) bool {
	return len(strings.Fields(s)) >= 3 && !strings.ContainsFunc(s, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// describe runs --describe with some further variables.
func (k *kit) describe(ctx context.Context, env ...string) ([]byte, error) {
	p, err := k.byHand(ctx, []string{"--describe"}, env)
	switch {
	case err != nil:
		return nil, err
	case p.exitCode() != 0:
		return nil, fmt.Errorf("%s", p.end())
	}
	return p.stdout.Bytes(), nil
}

func checkDescribeFlag(ctx context.Context, k *kit) verdict {
	const next = "print the manifest as canonical JSON (keys sorted, no white space, zero fields left out) and a newline, nothing else; exit with status 0"
	out, err := k.describe(ctx)
	if err != nil {
		return failed(next, "%v", err)
	}
	m, err := contract.ParseManifest(out)
	if err != nil {
		return failed(next, "%v; it printed %s", err, quote(string(out)))
	}
	if want := append(m.Canonical(), '\n'); !bytes.Equal(out, want) {
		return failed(next, "not canonical: %s", difference(want, out))
	}
	k.manifest, k.described = m, out
	return passed("%d bytes, digest %s", len(out), m.Digest())
}

// difference shows where two texts part.
func difference(want, got []byte) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-20)
	cut := func(b []byte) string { return quote(string(b[min(from, len(b)):min(i+60, len(b))])) }
	return fmt.Sprintf("from byte %d on it says %s where %s was expected", i, cut(got), cut(want))
}

func checkVersionFlag(ctx context.Context, k *kit) verdict {
	want := k.manifest.Name + " " + k.manifest.Version
	next := fmt.Sprintf("print %q and a newline, exit with status 0", want)
	p, err := k.byHand(ctx, []string{"--version"}, nil)
	switch {
	case err != nil:
		return failed(next, "%v", err)
	case p.exitCode() != 0:
		return failed(next, "%s", p.end())
	case strings.TrimSpace(p.stdout.String()) != want:
		return failed(next, "it printed %s", quote(p.stdout.String()))
	}
	return passed("%s", want)
}

func checkDescribeConstant(ctx context.Context, k *kit) verdict {
	const next = "build the manifest from constants only: no environment, clock, process id, random or map order"
	was := k.friendly
	defer func() { k.friendly = was }()
	for range 2 {
		k.friendly = !k.friendly // another home and another working directory
		out, err := k.describe(ctx, "TZ=Asia/Kathmandu", "LANG=C", "LC_ALL=C")
		if err != nil {
			return failed(next, "in another environment: %v", err)
		}
		if !bytes.Equal(out, k.described) {
			return failed(next, "in another environment: %s", difference(k.described, out))
		}
	}
	return passed("the same bytes in three environments")
}

func checkManifest(_ context.Context, k *kit) verdict {
	m := *k.manifest
	// These have checks of their own.
	m.Config, m.Tools = contract.ConfigBlock{}, nil
	if err := m.Validate(); err != nil {
		return failed("correct the manifest", "%s", joined(err))
	}
	if !slices.Contains(m.ContractVersions, uint32(contract.Version)) {
		return failed(fmt.Sprintf("add %d to the contract versions", contract.Version), "it speaks %v", m.ContractVersions)
	}
	return passed("%s %s, a %s plugin", m.Name, m.Version, m.Kind)
}

func checkConfigSchema(_ context.Context, k *kit) verdict {
	m := contract.Manifest{
		Name: "schema", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{contract.Version}, Config: k.manifest.Config,
	}
	if err := m.Validate(); err != nil {
		return failed("correct the schema of the config block", "%s", joined(err))
	}
	return passed("%d attributes, %d blocks", len(m.Config.Attributes), len(m.Config.Blocks))
}

// joined writes joined errors on one line.
func joined(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
