package plugintest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func checkAccepts(ctx context.Context, k *kit) verdict {
	if names := k.missingValues(); len(names) > 0 {
		return failed("pass the kit a configuration with these attributes", "the schema requires %s", strings.Join(names, ", "))
	}
	p, err := k.ready(ctx)
	if err != nil && !k.withHome {
		bare := err
		k.drop()
		k.withHome = true
		if p, err = k.ready(ctx); err != nil {
			k.withHome, err = false, bare
		} else {
			k.bareErr = bare
		}
	}
	if err != nil {
		return failed("correct the configuration that the kit was given, or the plugin", "%v", err)
	}
	if treeSupported {
		k.figures.IdleRSSBytes = resident(p.marked())
	}
	return passed("no errors")
}

func checkAgain(ctx context.Context, k *kit, p *process) verdict {
	for n := range 2 {
		req := k.configuration()
		req.Generation = uint64(n) + 2
		if err := k.configure(ctx, p, req); err != nil {
			return failed("let Configure replace the previous configuration", "the %s Configure: %v", [...]string{"second", "third"}[n], err)
		}
	}
	return passed("accepted three times")
}

// refuse checks that the plugin rejects each of the blocks with a diagnostic, and accepts a valid block afterwards.
func (k *kit) refuse(ctx context.Context, bad []badBlock, pathNeeded bool) verdict {
	const next = "return a diagnostic with the severity error and the path of the attribute"
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	for _, b := range bad {
		resp, err := call(ctx, k, p, p.plugin().Configure, k.configurationWith(b.block))
		if err != nil {
			return failed(next, "%s: %v", b.what, err)
		}
		if err := checkDiagnostics(k.manifest.Config, resp.GetDiagnostics(), b.name, pathNeeded); err != nil {
			return failed(next, "%s: %v", b.what, err)
		}
	}
	if err := k.configure(ctx, p, k.configuration()); err != nil {
		return failed("keep the previous configuration if a new one is rejected", "a valid block after rejected ones: %v", err)
	}
	return passed("%d blocks rejected with diagnostics", len(bad))
}

func checkDiagnostics(schema contract.ConfigBlock, given []*gantryv1.Diagnostic, name string, pathNeeded bool) error {
	found := 0
	for _, d := range convert.DiagnosticsFromProto(given) {
		if d.Severity == contract.SeverityWarning {
			continue
		}
		found++
		if strings.TrimSpace(d.Summary) == "" {
			return errors.New("a diagnostic without a summary")
		}
		if pathNeeded && len(d.Path) == 0 {
			return fmt.Errorf("%q has no path, so a host can't show its line", d.Summary)
		}
		if err := checkPath(schema, d.Path, name); err != nil {
			return fmt.Errorf("%q: %w", d.Summary, err)
		}
	}
	if found == 0 {
		return errors.New("it was accepted")
	}
	return nil
}

func checkWrongType(ctx context.Context, k *kit) verdict {
	bad := k.wrongTypes()
	if len(bad) == 0 {
		return skipped("", "the schema has no attributes or blocks with a type")
	}
	return k.refuse(ctx, bad, true)
}

func checkMissing(ctx context.Context, k *kit) verdict {
	bad := k.missing()
	if len(bad) == 0 {
		return skipped("", "the schema requires nothing")
	}
	return k.refuse(ctx, bad, false)
}

func checkUnknown(ctx context.Context, k *kit) verdict { return k.refuse(ctx, k.unknown(), false) }
