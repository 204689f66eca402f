package hook

import (
	"crypto/sha256"
	"encoding/base64"
)

// Content tells apart what a command line runs by the files that it names: a digest of those of them that are no programs of the
// system's; "" where there are none. dir is where it runs. What may not be read counts by that.
func Content(line, dir string) string {
	h := sha256.New()
	found := scripts(line, dir, nil, lookAt)
	for _, s := range found {
		sum, err := contentOf(s.path)
		if err != nil {
			sum = make([]byte, sha256.Size)
		}
		name := sha256.Sum256([]byte(s.path))
		h.Write(name[:])
		h.Write(sum)
	}
	if len(found) == 0 {
		return ""
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
