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
		return failed("give the kit a configuration with these attributes", "the schema requires %s, and no value was given", strings.Join(names, ", "))
	}
	p, err := k.ready(ctx)
	if err != nil && !k.friendly {
		bare := err
		k.drop()
		k.friendly = true
		if p, err = k.ready(ctx); err != nil {
			k.friendly, err = false, bare
		} else {
			k.unfit = bare
		}
	}
	if err != nil {
		return failed("correct the configuration given to the kit, or the plugin", "%v", err)
	}
	if treeSupported {
		k.figures.IdleRSSBytes = resident(p.left())
	}
	return passed("no errors")
}

func checkAgain(ctx context.Context, k *kit) verdict {
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	for n := range 2 {
		req := k.configuration()
		req.Generation = uint64(n) + 2
		if err := k.configure(ctx, p, req); err != nil {
			return failed("let Configure replace the configuration before", "Configure for the %s time: %v", [...]string{"second", "third"}[n], err)
		}
	}
	return passed("accepted three times")
}

// refuse demands that each block is refused as it should be, and that a good one is accepted afterwards.
func (k *kit) refuse(ctx context.Context, bad []badBlock, pathNeeded bool) verdict {
	const next = "answer with a diagnostic of severity error whose path leads to the attribute"
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
		return failed("keep the configuration before when a new one is refused", "a good block after refused ones: %v", err)
	}
	return passed("%d blocks refused with a diagnostic each", len(bad))
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
			return fmt.Errorf("%q has no path, so nobody can tell its line", d.Summary)
		}
		if err := checkPath(schema, d.Path, name); err != nil {
			return fmt.Errorf("%q: %w", d.Summary, err)
		}
	}
	if found == 0 {
		return errors.New("accepted without an error")
	}
	return nil
}

func checkWrongType(ctx context.Context, k *kit) verdict {
	bad := k.wrongTypes()
	if len(bad) == 0 {
		return skipped("", "the schema has nothing whose type could be wrong")
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
