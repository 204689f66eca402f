package config

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/schema"
)

// Store configures where and for how long threads are stored.
type Store struct {
	Driver string // "sqlite" or "postgres"
	Range  Range  // of the driver
	// Variables are the sorted names of the environment variables that the address may read. Their values are only for the host.
	Variables []string
	Retention Retention

	dsn   setting
	files diag.Files
}

// Retention configures which threads are deleted automatically. 0 disables a limit.
type Retention struct {
	MaxAge     time.Duration
	MaxThreads int64
	KeepNamed  bool // never delete a thread that has a name
}

// Address evaluates the address of the database server, which may contain a password. It is empty for a driver without a server.
func (s Store) Address() (Secret, Diagnostics) {
	address, ds, _ := s.address()
	return address, ds
}

// address also reports whether the problem is only that something outside the configuration is missing, such as an environment
// variable.
func (s Store) address() (address Secret, ds Diagnostics, missing bool) {
	if s.Driver != schema.DriverPostgres {
		return Secret{}, nil, false
	}
	v, hds := s.dsn.expr.Value(s.dsn.from.scope.Context())
	if hds.HasErrors() {
		return Secret{}, s.files.Convert(hds, "correct the value"), diag.AllExplained(hds)
	}
	plain, marks := v.UnmarkDeep()
	wrong := func(detail, next string) (Secret, Diagnostics, bool) {
		return Secret{}, Diagnostics{s.files.At(s.dsn.expr.Range(), Diagnostic{
			Severity: diag.Error, Summary: "invalid value for \"dsn\"", Detail: detail, Next: next,
		})}, false
	}
	for m := range marks {
		if _, prints := m.(*function.Command); prints {
			return wrong("The output of a program can't be the address of the database.", "use env(), secret() or file() here")
		}
	}
	if plain.IsNull() || plain.Type() != cty.String || plain.AsString() == "" {
		return wrong("It must be the address of a PostgreSQL database.", dsnExample)
	}
	return Secret{Value: plain.AsString()}, nil, false
}

const dsnExample = `write one like "postgres://gantry@db.example.com/gantry", or env("GANTRY_DSN") where it holds a password`

// store reads the block. The address is only inspected: what it refers to may be missing until the database is opened.
func (l *loader) store(b, kept block) Store {
	driver := b.text("driver")
	s := Store{
		Driver: cmp.Or(driver, schema.DriverSQLite), Range: l.files.Range(b.at("driver")), files: l.files,
		Retention: Retention{
			MaxAge: kept.duration("max_age"), MaxThreads: kept.integer("max_threads"), KeepNamed: kept.flag("keep_named", false),
		},
	}
	dsn, there := b.n.attrs["dsn"]
	switch {
	case !there && driver == schema.DriverPostgres:
		b.errorAt(b.at("driver"), "missing required argument", `The driver "postgres" needs the argument "dsn".`, dsnExample)
		s.Driver = schema.DriverSQLite
	case !there:
	case driver == "":
		b.errorAt(dsn.at, "\"dsn\" has no effect", "Without a driver, threads are stored in a file in gantry's home.", `add driver = "postgres", or remove dsn`)
	default:
		s.dsn = dsn
		read := map[string]bool{}
		v, hds := dsn.expr.Value(dsn.from.scope.Recording(func(name string) { read[name] = true }))
		s.Variables = slices.Sorted(maps.Keys(read))
		switch {
		case hds.HasErrors():
			b.decoder.ds = append(b.decoder.ds, l.files.Convert(hds, "correct the value")...)
		case v.IsKnown() && (v.IsNull() || v.Type() != cty.String):
			b.errorAt(dsn.expr.Range(), "incorrect attribute value type", `The argument "dsn" takes a string in quotes.`, dsnExample)
		}
	}
	return s
}
