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
		return failed("build the plugin and make it executable; a script must begin with a #! line", "%v", err)
	}
	p, err := k.runStandalone(ctx, []string{"--version"}, nil)
	if p == nil {
		return failed("build it for this machine; a script must begin with a #! line that names its interpreter", "%v", err)
	}
	return passed("%s", k.path)
}

func checkCookie(ctx context.Context, k *kit) verdict {
	const next = "if " + wire.CookieKey + " doesn't contain the cookie, print to stderr what the program is, and exit with status 1"
	p, err := k.runStandalone(ctx, nil, nil)
	if err != nil {
		return failed(next, "%v", err)
	}
	said := p.stderr.text()
	switch {
	case p.exitCode() != 1:
		return failed(next, "%s", p.end())
	case p.stdout.Len() > 0:
		return failed(next, "it wrote to stdout, which is reserved for the handshake line: %s", quote(p.stdout.String()))
	case !readable(said):
		return failed(next, "exit status 1, but no readable explanation on stderr: %s", quote(said))
	}
	return passed("exit status 1, explanation: %s", quote(strings.TrimSpace(said)))
}

// readable reports whether s has at least three words and no control characters.
func readable(s string) bool {
	return len(strings.Fields(s)) >= 3 && !strings.ContainsFunc(s, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// describe runs --describe with additional variables.
func (k *kit) describe(ctx context.Context, env ...string) ([]byte, error) {
	p, err := k.runStandalone(ctx, []string{"--describe"}, env)
	switch {
	case err != nil:
		return nil, err
	case p.exitCode() != 0:
		return nil, fmt.Errorf("%s", p.end())
	}
	return p.stdout.Bytes(), nil
}

func checkDescribeFlag(ctx context.Context, k *kit) verdict {
	const next = "print only the manifest as canonical JSON (sorted keys, no white space, no fields with zero values) and a newline, and exit with status 0"
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

// difference shows where two texts begin to differ.
func difference(want, got []byte) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-20)
	cut := func(b []byte) string { return quote(string(b[min(from, len(b)):min(i+60, len(b))])) }
	return fmt.Sprintf("at byte %d: got %s, want %s", i, cut(got), cut(want))
}

func checkVersionFlag(ctx context.Context, k *kit) verdict {
	want := k.manifest.Name + " " + k.manifest.Version
	next := fmt.Sprintf("print %q and a newline, and exit with status 0", want)
	p, err := k.runStandalone(ctx, []string{"--version"}, nil)
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
	const next = "build the manifest only from constants, without environment, time, PID, random numbers or the order of a map"
	was := k.withHome
	defer func() { k.withHome = was }()
	for range 2 {
		k.withHome = !k.withHome // another home and working directory
		out, err := k.describe(ctx, "TZ=Asia/Kathmandu", "LANG=C", "LC_ALL=C")
		if err != nil {
			return failed(next, "in another environment: %v", err)
		}
		if !bytes.Equal(out, k.described) {
			return failed(next, "in another environment: %s", difference(k.described, out))
		}
	}
	return passed("identical in three environments")
}

func checkManifest(_ context.Context, k *kit) verdict {
	m := *k.manifest
	// These are checked separately.
	m.Config, m.Tools = contract.ConfigBlock{}, nil
	if err := m.Validate(); err != nil {
		return failed("correct the manifest", "%s", joined(err))
	}
	if !slices.Contains(m.ContractVersions, uint32(contract.Version)) {
		return failed(fmt.Sprintf("add %d to the contract versions", contract.Version), "it supports %v", m.ContractVersions)
	}
	return passed("%s %s, a %s plugin", m.Name, m.Version, m.Kind)
}

func checkConfigSchema(_ context.Context, k *kit) verdict {
	m := contract.Manifest{
		Name: "schema", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{contract.Version}, Config: k.manifest.Config,
	}
	if slices.Contains(k.manifest.Capabilities, "spawn") { // which blocks that declare processes need
		m.Capabilities = []string{"spawn"}
	}
	if err := m.Validate(); err != nil {
		return failed("correct the schema of the config block", "%s", joined(err))
	}
	return passed("%d attributes, %d blocks", len(m.Config.Attributes), len(m.Config.Blocks))
}

// joined formats joined errors on one line.
func joined(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
