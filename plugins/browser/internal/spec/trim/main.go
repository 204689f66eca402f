// Command trim writes the names and the signatures of a protocol, whose description it reads from the files that it is given.
//
// It owns: what is kept of the description, and the form in which package spec reads it. It must not know: where the files come from.
//
// Start with [main].
package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type protocol struct {
	Domains []struct {
		Domain   string
		Types    []property
		Commands []command
		Events   []command
	}
}

type command struct {
	Name       string
	Parameters []property
	Returns    []property
}

type property struct {
	ID         string
	Name       string
	Type       string
	Ref        string `json:"$ref"`
	Enum       []string
	Items      *property
	Optional   bool
	Properties []property
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(files []string, to io.Writer) error {
	var lines []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var p protocol
		if err := json.Unmarshal(b, &p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, d := range p.Domains {
			for _, c := range d.Commands {
				lines = append(lines, "command\t"+d.Domain+"."+c.Name+"\t"+list(d.Domain, c.Parameters)+returns(d.Domain, c.Returns))
			}
			for _, c := range d.Events {
				lines = append(lines, "event\t"+d.Domain+"."+c.Name+"\t"+list(d.Domain, c.Parameters))
			}
			for _, t := range d.Types {
				lines = append(lines, "type\t"+d.Domain+"."+t.ID+"\t"+t.text(d.Domain))
			}
		}
	}
	slices.Sort(lines)
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(z, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	return z.Close()
}

func list(domain string, all []property) string {
	var out []string
	for _, p := range all {
		mark := ""
		if p.Optional {
			mark = "?"
		}
		out = append(out, p.Name+mark+": "+p.text(domain))
	}
	if len(out) == 0 {
		return "{}"
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func returns(domain string, all []property) string {
	if len(all) == 0 {
		return ""
	}
	return " -> " + list(domain, all)
}

func (p property) text(domain string) string {
	switch {
	case p.Ref != "" && !strings.Contains(p.Ref, "."):
		return domain + "." + p.Ref
	case p.Ref != "":
		return p.Ref
	case len(p.Enum) > 0:
		return `"` + strings.Join(p.Enum, `"|"`) + `"`
	case p.Items != nil:
		return p.Items.text(domain) + "[]"
	case len(p.Properties) > 0:
		return list(domain, p.Properties)
	}
	return p.Type
}
