package role

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/config"
)

// Read returns the roles of a configuration: its blocks, then the role files of the project if it is trusted, those of the user, and those of
// further folders. Folders that can't be read are left out and reported.
func Read(c *config.Config) (s Set, problems []error) {
	sources := Sources{Blocks: c.Agents.Roles}
	if c.Project != nil && c.Project.Trusted {
		sources.Files = append(sources.Files, c.Project.Roles)
	}
	for _, folder := range append([]string{filepath.Join(c.Home, "agents")}, c.Agents.Folders...) {
		files, err := config.ReadRoles(folder)
		if err != nil {
			problems = append(problems, err)
		}
		sources.Files = append(sources.Files, files)
	}
	return Load(sources), problems
}
