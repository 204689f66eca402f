package box

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// helperFolders are where bubblewrap is looked for: only root can put a program there. PATH may begin with the workspace.
var helperFolders = []string{"/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"}

func findHelper() (string, error) {
	for _, dir := range helperFolders {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, "bwrap"))
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			return "", fmt.Errorf("%s does not belong to root, or is writable by others", path)
		}
		return path, nil
	}
	return "", errors.New("bubblewrap is not installed")
}
