package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	imageDescription = "Shows you an image file of this machine: PNG, JPEG, WebP or GIF. Use it when the user names an image that you have not been " +
		"given, or when a command has made one."

	detailHigh     = "high"
	detailOriginal = "original"
)

// imageArgs are the arguments of view_image.
type imageArgs struct {
	Path   string `json:"path"`
	Detail string `json:"detail,omitempty"`
}

func imageSchema() json.RawMessage {
	return schema([]string{"path"},
		property{name: "path", kind: "string", doc: "Path of the image file."},
		property{name: "detail", kind: "string", enum: []string{detailHigh, detailOriginal},
			doc: "high makes a large image smaller, which is the default; original keeps it up to 6000 pixels a side, for small print."})
}

// imageTool is not parallel-safe, because the image is often created by the previous call.
func (f *shellPlugin) imageTool() tool.Tool {
	return tool.New("view_image", imageDescription, f.image,
		tool.Schema(imageSchema()),
		tool.Assess(f.assessImage),
		tool.Lenient(), tool.ModelTraits(imageTrait))
}

func (in imageArgs) check() error {
	switch in.Detail {
	case "", detailHigh, detailOriginal:
		return nil
	}
	return fmt.Errorf("view_image.detail only supports `high` or `original`; omit `detail` for default high resized behavior, got `%s`", in.Detail)
}

func (f *shellPlugin) assessImage(_ context.Context, c *tool.AssessCall, in imageArgs) (*contract.Assessment, error) {
	if err := in.check(); err != nil {
		return earlyError(err.Error()), nil
	}
	path := absolute(c.Cwd(), in.Path)
	a := &contract.Assessment{ReadOnly: true, Summary: oneLine("view_image " + in.Path), Item: &contract.ImageItem{Path: path}}
	if !inside(c.Cwd(), path) {
		a.Effects = []contract.Effect{contract.ReadEffect{Paths: []string{path}}}
	}
	return a, nil
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func (f *shellPlugin) image(ctx context.Context, c *tool.Call, in imageArgs) (*tool.Result, error) {
	if err := in.check(); err != nil {
		return tool.Errorf("%s", err), nil
	}
	if !slices.Contains(c.ModelTraits(), imageTrait) {
		return tool.Errorf("view_image is not allowed because you do not support image inputs"), nil
	}
	path := absolute(c.Cwd(), in.Path)
	item := &contract.ImageItem{Path: path}
	if err := c.Started(item); err != nil {
		return nil, err
	}
	img, err := f.helper.View(ctx, c.Command, path, in.Detail == detailOriginal)
	if err != nil {
		return nil, failed("view_image", err)
	}
	return &tool.Result{
		Parts: []contract.Part{&contract.MediaPart{MediaType: img.MediaType, Data: img.Data, Detail: cmp.Or(in.Detail, detailHigh)}},
		Item:  item,
	}, nil
}
