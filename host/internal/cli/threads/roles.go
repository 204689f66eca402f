package threads

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/spf13/cobra"
)

// roleRow is a role as JSON.
type roleRow struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Source      string          `json:"source"`
	Model       string          `json:"model,omitempty"`
	Effort      string          `json:"effort,omitempty"`
	Bounds      event.Bounds    `json:"bounds"`
	Budget      event.Allowance `json:"budget"`
	Notes       []string        `json:"notes,omitempty"`
	Problem     string          `json:"problem,omitempty"`
}

func agentsRoles(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "roles", Short: "List the roles that agents can have here", Args: console.Takes(0, 0),
		Long: "roles lists the roles that a model can give to an agent that it spawns: what they are for, what they set, and where they are defined.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.Home()
			if err != nil {
				return err
			}
			cfg, err := a.LoadConfig(cmd.Context(), home, a.Dir)
			if err != nil {
				return err
			}
			s, problems := role.Read(cfg)
			for _, err := range problems {
				fmt.Fprintln(a.Stderr, "a folder with roles can't be read:", err)
			}
			if asJSON {
				rows := []roleRow{}
				for _, r := range s.All() {
					row := roleRow{r.Name, r.Description, r.Source, r.Model, r.Effort, r.Bounds, r.Budget, r.Notes, ""}
					if r.Problem != nil {
						row.Problem = r.Problem.Error()
					}
					rows = append(rows, row)
				}
				return json.NewEncoder(a.Stdout).Encode(rows)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ROLE\tDESCRIPTION\tSETS\tDEFINED IN")
			for _, r := range s.All() {
				sets := strings.Join(r.Summary(), "; ")
				if r.Problem != nil {
					sets = "can't be used"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, strings.Join(strings.Fields(r.Description), " "), sets, r.Source)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, r := range s.All() {
				if r.Problem != nil {
					fmt.Fprintln(a.Stderr, r.Problem)
				}
				for _, n := range r.Notes {
					fmt.Fprintln(a.Stderr, n)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
