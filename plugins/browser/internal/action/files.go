package action

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
)

// Files are the arguments of the actions that give files of the user's to a page.
type Files struct {
	Index int      `json:"index"`
	Paths []string `json:"paths"`
}

// SaveAsPDF are the arguments of save_as_pdf.
type SaveAsPDF struct {
	Name       string  `json:"file_name,omitempty" jsonschema:"default: the title"`
	Landscape  bool    `json:"landscape,omitempty"`
	Paper      string  `json:"paper_format,omitempty" enum:"Letter,Legal,A4,A3,Tabloid"`
	Scale      float64 `json:"scale,omitempty"`
	Background *bool   `json:"print_background,omitempty" jsonschema:"default true"`
}

var withFiles = map[string]func(*run, context.Context, Files) (string, error){"upload_file": (*run).upload, "drop_files": (*run).drop}

// Paths returns the files of the user's that the action reads.
func (n Named) Paths() []string {
	if a, ok := n.Args.(*Files); ok {
		return a.Paths
	}
	return nil
}

// maxFiles is the number of files that one action gives to a page.
const maxFiles = 20

func (r *run) share(ctx context.Context, a Files) ([]string, error) {
	switch {
	case len(a.Paths) == 0:
		return nil, errors.New("paths is empty")
	case len(a.Paths) > maxFiles:
		return nil, fmt.Errorf("there are %d paths; give at most %d", len(a.Paths), maxFiles)
	case r.s.Upload == nil:
		return nil, errors.New("no file can be given to this browser")
	}
	return r.s.Upload(ctx, a.Paths)
}

// fileInput finds the field for files that an element is, labels, contains, or stands beside.
const fileInput = `el => {
  const is = e => e?.localName === 'input' && e.type === 'file';
  if (!el || is(el)) return el;
  if (is(el.control)) return el.control;
  for (let e = el, up = 0; e && up <= 3; e = e.parentElement, up++) {
    const all = e.querySelectorAll('input[type=file]');
    if (all.length === 1) return all[0];
    if (all.length) return undefined;
  }
}`

// field returns the field for files that belongs to an element, as an object, and says of it what matters.
const describeFileInput = `el => {
  const f = (` + fileInput + `)(el);
  return {gone: !el, none: !f, multiple: !!f?.multiple, disabled: !!f?.matches(':disabled'), folder: !!f?.webkitdirectory, names: f ? [...f.files].map(x => x.name) : []};
}`

func (r *run) upload(ctx context.Context, a Files) (string, error) {
	f, id, err := r.s.element(r.tab, a.Index)
	if err != nil {
		return "", err
	}
	var is struct {
		Gone, None, Multiple, Disabled, Folder bool
		Names                                  []string
	}
	inspect := func(ctx context.Context) error { return f.Value(ctx, describeFileInput, &is, id) }
	if err := r.tab.Do(ctx, inspect); err != nil {
		return "", err
	}
	switch {
	case is.Gone:
		return "", errGone(a.Index, nil)
	case is.None:
		return "", fmt.Errorf("element %d is no field for files, and no single one belongs to it; find the <input type=file> in the state, or use drop_files", a.Index)
	case is.Disabled:
		return "", fmt.Errorf("the field of element %d is disabled", a.Index)
	case is.Folder:
		return "", fmt.Errorf("the field of element %d takes a folder, which can't be uploaded", a.Index)
	case len(a.Paths) > 1 && !is.Multiple:
		return "", fmt.Errorf("the field of element %d takes one file only", a.Index)
	}
	shared, err := r.share(ctx, a)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range shared {
		names = append(names, filepath.Base(p))
	}
	text := fmt.Sprintf("Uploaded %s to [%d]", quoted(names), a.Index)
	return text, r.within(ctx, func(ctx context.Context) error {
		object, err := f.Object(ctx, fileInput, id)
		if err != nil {
			return err
		}
		if object == "" {
			return errGone(a.Index, nil)
		}
		defer func() {
			_ = f.Session.Post(runtime.CommandReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: capture.Objects})
		}()
		if _, err := protocol.Call(ctx, f.Session, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: shared, ObjectID: object}); err != nil {
			return err
		}
		if inspect(ctx) == nil && !is.Gone && len(is.Names) != len(names) { // otherwise the page has gone on
			text += fmt.Sprintf("; the page has taken it out of the field, which now has %d files: see in the state whether it was accepted", len(is.Names))
		}
		return nil
	})
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

func (r *run) drop(ctx context.Context, a Files) (string, error) {
	if _, err := r.s.locate(ctx, r.tab, a.Index, false); err != nil {
		return "", err
	}
	shared, err := r.share(ctx, a)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range shared {
		names = append(names, filepath.Base(p))
	}
	return fmt.Sprintf("Dropped %s on [%d]", quoted(names), a.Index), r.within(ctx, func(ctx context.Context) error {
		p, err := r.s.locate(ctx, r.tab, a.Index, false)
		if err != nil {
			return err
		}
		data := &input.DragData{Items: []*input.DragDataItem{}, Files: shared, DragOperationsMask: 1} // copy
		for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
			_, err := protocol.Call(ctx, r.tab.Session, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: p.X, Y: p.Y, Data: data})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// printTime limits how long a page may take to be printed.
const printTime = 30 * time.Second

// maxPDF is the maximum size of a printed page.
const maxPDF = 64 << 20

// papers are sizes of paper in inches.
var papers = map[string][2]float64{"": {8.5, 11}, "Letter": {8.5, 11}, "Legal": {8.5, 14}, "A4": {8.27, 11.7}, "A3": {11.7, 16.54}, "Tabloid": {11, 17}}

func (a *SaveAsPDF) do(ctx context.Context, r *run) (string, error) {
	r.still = true
	paper, ok := papers[a.Paper]
	switch {
	case !ok:
		return "", fmt.Errorf("there is no paper format %q; use Letter, Legal, A4, A3 or Tabloid", a.Paper)
	case a.Scale != 0 && (a.Scale < 0.1 || a.Scale > 2):
		return "", fmt.Errorf("scale is %g; it is 0.1 to 2", a.Scale)
	case r.s.Save == nil:
		return "", errors.New("this browser can't save files")
	}
	scale := a.Scale
	if scale == 0 {
		scale = 1
	}
	ctx, cancel := context.WithTimeoutCause(ctx, printTime, fmt.Errorf("the page was not printed within %v", printTime))
	defer cancel()
	var content []byte
	var title string
	err := r.tab.Do(ctx, func(ctx context.Context) error {
		p, err := protocol.Call(ctx, r.tab.Session, page.PrintToPDF, page.PrintToPDFParams{
			Landscape: new(a.Landscape), PrintBackground: new(a.Background == nil || *a.Background), Scale: scale,
			PaperWidth: paper[0], PaperHeight: paper[1], TransferMode: page.PrintToPDFTransferModeReturnAsStream,
		})
		if err != nil {
			return err
		}
		if f, err := capture.Main(ctx, r.tab); err == nil {
			_ = f.Value(ctx, "() => document.title", &title, 0) // otherwise it has none
		}
		content, err = r.stream(ctx, p.Stream, maxPDF)
		return err
	})
	if err != nil {
		return "", err
	}
	name := a.Name
	if name == "" {
		name = clipRunes(title, 50)
	}
	if name == "" {
		name = "page"
	}
	if name = files.Name(name); !strings.EqualFold(filepath.Ext(name), ".pdf") {
		name = files.Name(name + ".pdf")
	}
	where, err := r.s.Save(ctx, name, "application/pdf", content)
	return fmt.Sprintf("Saved the page as PDF: %s (%d bytes)", where, len(content)), err
}

func clipRunes(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most])
	}
	return s
}

// stream reads a stream of the browser and closes it.
func (r *run) stream(ctx context.Context, handle io.StreamHandle, most int) ([]byte, error) {
	defer func() { _ = r.tab.Session.Post(io.CommandClose, io.CloseParams{Handle: handle}) }()
	var out []byte
	for {
		c, err := protocol.Call(ctx, r.tab.Session, io.Read, io.ReadParams{Handle: handle})
		if err != nil {
			return nil, err
		}
		if out = append(out, c.Data...); len(out) > most {
			return nil, fmt.Errorf("it is larger than %d MB", most>>20)
		}
		if c.EOF {
			return out, nil
		}
	}
}
