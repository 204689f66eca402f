package version

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Op is a comparison operator.
type Op int

// Operators, in the order in which they are printed for the same version.
const (
	OpUnknown    Op = iota
	Greater         // >
	GreaterEqual    // >=
	Pessimistic     // ~> 1.2 is ≥ 1.2 and < 2; ~> 1.2.3 is ≥ 1.2.3 and < 1.3
	LessEqual       // <=
	Less            // <
	NotEqual        // !=
	Equal           // =, or no operator
)

var opText = [...]string{"?", ">", ">=", "~>", "<=", "<", "!=", ""}

// String returns the operator as written. Equal is written as "".
func (o Op) String() string {
	if o < 0 || int(o) >= len(opText) {
		return opText[0]
	}
	return opText[o]
}

// Constraint is a comparison. Parts is the number of version parts that were written; only Pessimistic depends on it.
type Constraint struct {
	Op      Op
	Version Version
	Parts   int
}

// Constraints must all be satisfied. An empty list allows every release.
type Constraints []Constraint

// ParseConstraints parses comparisons separated by commas, as in ">= 1.2, < 2". Missing parts are zero.
func ParseConstraints(s string) (Constraints, error) {
	if strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("empty version constraint: use one like \"~> 1.4\", or remove it")
	}
	var out Constraints
	for part := range strings.SplitSeq(s, ",") {
		c, err := parseConstraint(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func parseConstraint(s string) (Constraint, error) {
	rest := strings.TrimLeft(s, "<>=!~^")
	op := Equal
	switch sign := s[:len(s)-len(rest)]; sign {
	case "", "=":
	case ">":
		op = Greater
	case ">=":
		op = GreaterEqual
	case "~>":
		op = Pessimistic
	case "<=":
		op = LessEqual
	case "<":
		op = Less
	case "!=":
		op = NotEqual
	case "==":
		return Constraint{}, fmt.Errorf("version constraint %q: write \"=\" or nothing instead of \"==\"", s)
	case "^", "~":
		return Constraint{}, fmt.Errorf("version constraint %q: write \"~>\" instead of %q", s, sign)
	case "=>", "=<":
		return Constraint{}, fmt.Errorf("version constraint %q: write %q instead of %q", s, sign[1:]+"=", sign)
	default:
		return Constraint{}, fmt.Errorf("version constraint %q: unknown operator %q; use =, !=, >, >=, <, <= or ~>", s, sign)
	}
	rest = strings.TrimSpace(rest)
	switch {
	case rest == "":
		return Constraint{}, fmt.Errorf("version constraint %q: missing version", s)
	case strings.ContainsAny(rest, " \t"):
		return Constraint{}, fmt.Errorf("version constraint %q: separate comparisons with commas", s)
	case !semver.IsValid("v" + rest):
		if normal := normalize(rest); normal != "" {
			return Constraint{}, fmt.Errorf("version constraint %q: %q is not in canonical form: write %q", s, rest, normal)
		}
		return Constraint{}, fmt.Errorf("version constraint %q: %q is not a version", s, rest)
	}
	core, _, _ := strings.Cut(rest, "+")
	core, _, _ = strings.Cut(core, "-")
	return Constraint{Op: op, Version: Version{normalize(rest)}, Parts: strings.Count(core, ".") + 1}, nil
}

// Allows reports whether v satisfies all constraints. A pre-release is allowed only if a constraint names it exactly.
func (cs Constraints) Allows(v Version) bool {
	mentioned := false
	for _, c := range cs {
		if !c.allows(v) {
			return false
		}
		mentioned = mentioned || c.Op != NotEqual && c.Version.Compare(v) == 0
	}
	return mentioned || !v.Prerelease()
}

func (c Constraint) allows(v Version) bool {
	d := v.Compare(c.Version)
	switch c.Op {
	case Greater:
		return d > 0
	case GreaterEqual:
		return d >= 0
	case LessEqual:
		return d <= 0
	case Less:
		return d < 0
	case NotEqual:
		return d != 0
	case Equal:
		return d == 0
	case Pessimistic:
		low, high := "v"+c.Version.text, "v"+v.text
		if c.Parts >= 3 {
			return d >= 0 && semver.MajorMinor(low) == semver.MajorMinor(high)
		}
		return d >= 0 && semver.Major(low) == semver.Major(high)
	}
	return false
}

// String returns the canonical form: three parts (at least two after ~>), sorted by version, without duplicates.
func (cs Constraints) String() string {
	sorted := slices.Clone(cs)
	for i := range sorted {
		// "~> 1.2.3" and "~> 1.2" differ, but "~> 1" equals "~> 1.0".
		if sorted[i].Op != Pessimistic || sorted[i].Parts >= 3 {
			sorted[i].Parts = 3
		} else {
			sorted[i].Parts = 2
		}
	}
	slices.SortStableFunc(sorted, func(a, b Constraint) int {
		return cmp.Or(a.Version.Compare(b.Version), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Parts, b.Parts),
			strings.Compare(a.Version.text, b.Version.text))
	})
	var out []string
	for _, c := range slices.Compact(sorted) {
		text := c.Version.text
		if c.Parts == 2 {
			text = strings.TrimPrefix(semver.MajorMinor("v"+text), "v")
		}
		if sign := c.Op.String(); sign != "" {
			text = sign + " " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Best returns the newest version in vs that cs allow.
func Best(cs Constraints, vs []Version) (best Version, ok bool) {
	for _, v := range vs {
		if cs.Allows(v) && (!ok || v.Compare(best) > 0) {
			best, ok = v, true
		}
	}
	return best, ok
}
