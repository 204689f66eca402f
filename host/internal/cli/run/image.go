package run

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// readImages reads images. An image that the model could not use is an error, reported before anything is started.
func readImages(paths []string) ([]llm.Part, error) {
	var parts []llm.Part
	left := picture.MaxTotal
	for _, path := range paths {
		data, mediaType, err := picture.Read(path, left)
		if err != nil {
			return nil, console.Usage("the image %s can't be attached: %w", path, err)
		}
		left -= len(data)
		parts = append(parts, &llm.Media{MediaType: mediaType, Data: data, Filename: filepath.Base(path)})
	}
	return parts, nil
}
