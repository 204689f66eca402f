package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// newBrowserWith is newBrowser with more of the plugin's block.
func newBrowserWith(t *testing.T, program, block, script string) *rig.Rig {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed; `make test` installs it", program)
	}
	r := boxed(t, script)
	r.Config(fmt.Sprintf("plugin \"browser\" {\n  source = \"builtin/browser\"\n  config {\n    chromium = %q\n%s\n  }\n}\n", program, block))
	return r
}

// exchange is a server that hands out files and takes them.
type exchange struct {
	*httptest.Server

	mu  sync.Mutex
	got []string // name and content of what was uploaded
}

func newExchange(t *testing.T, names ...string) *exchange {
	t.Helper()
	s := &exchange{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/upload":
			s.take(w, r)
		case strings.HasPrefix(r.URL.Path, "/file/"):
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", `attachment; filename="`+r.URL.Query().Get("name")+`"`)
			fmt.Fprint(w, "content of "+r.URL.Path)
		case r.URL.Path == "/paper.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = io.WriteString(w, pdfFile("Due on the 5th May"))
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><title>Shelf</title><link rel=icon href=data:,><form action=/upload method=post enctype=multipart/form-data><input type=file name=f multiple><button>Send</button></form>`)
			for i, name := range names {
				fmt.Fprintf(w, "<p><a href=\"/file/%d?name=%s\">File %d</a>", i, strings.ReplaceAll(name, " ", "%20"), i)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *exchange) take(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range r.MultipartForm.File["f"] {
		f, err := h.Open()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b, _ := io.ReadAll(f)
		_ = f.Close()
		s.got = append(s.got, h.Filename+": "+string(b))
	}
	fmt.Fprintf(w, "Received %d", len(r.MultipartForm.File["f"]))
}

func (s *exchange) received() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "\n")
}

// pdfFile is a PDF file with one page.
func pdfFile(text string) string {
	stream := "BT /F1 12 Tf 72 720 Td (" + text + ") Tj ET"
	out, table := "%PDF-1.4\n", "0000000000 65535 f \n"
	for i, object := range []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(stream), stream),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
	} {
		table += fmt.Sprintf("%010d 00000 n \n", len(out))
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	return fmt.Sprintf("%sxref\n0 6\n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", out, table, len(out))
}

// entries are the names in a folder of the workspace.
func entries(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

// Downloads end up in the configured folder, never over another file; of a PDF file the model reads the text; files of the workspace are
// uploaded, and a page is printed. In read-only mode, what would be written is an artifact.
func TestBrowserFiles(t *testing.T) {
	t.Parallel()
	for _, program := range browsers {
		for _, mode := range []string{"read-only", "workspace-write", "full-access"} {
			t.Run(program+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := newExchange(t, "a b.txt", "a b.txt")
				r := newBrowserWith(t, program, `    downloads = "./got"`, act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
					act("c2", "{ click = { index = 3 } }")+act("c3", "{ click = { index = 4 } }")+
					act("c4", fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/paper.pdf"))+
					act("c5", `{ save_as_pdf = {} }`)+
					act("c6", `{ upload_file = { index = 1, paths = ["one.txt", "in/two.txt"] } }, { click = { index = 2 } }`)+done)
				r.Write("one.txt", "first")
				r.Write("in/two.txt", "second")
				r.OK(append(append([]string{"exec"}, reaching(mode)...), "go")...)
				out := r.Last().Outputs()
				got := r.Dir + "/got"
				want := map[string][]string{
					"c1": {"File 0"},
					"c2": {"1. Clicked [3]", "Downloaded " + got + "/a b.txt (18 bytes, text/plain) from " + s.URL + "/file/0?name=a%20b.txt."},
					"c3": {"Downloaded " + got + "/a b (1).txt"},
					"c4": {"Downloaded " + got + "/paper.pdf", "application/pdf", "Due on the 5th May"},
					"c5": {"1. Saved the page as PDF: " + got + "/Shelf.pdf"},
					"c6": {`1. Uploaded "one.txt", "two.txt" to [1]`, "Received 2"},
				}
				names := "Shelf.pdf, a b (1).txt, a b.txt, paper.pdf"
				if mode == "read-only" {
					names = ""
					want["c2"] = []string{"Downloaded a b.txt, as an artifact, because it can't be written to " + got, "18 bytes", "[artifact "}
					want["c3"], want["c4"], want["c5"] = []string{"as an artifact"}, []string{"as an artifact", "Due on the 5th May"}, []string{"Shelf.pdf, as an artifact"}
				}
				for id, list := range want {
					for _, w := range list {
						if !strings.Contains(out[id], w) {
							t.Errorf("%s has no %q:\n%s", id, w, out[id])
						}
					}
				}
				if have := entries(t, got); have != names {
					t.Errorf("the folder has %q, want %q", have, names)
				}
				if mode != "read-only" && (r.Read("got/a b.txt") != "content of /file/0" || r.Read("got/a b (1).txt") != "content of /file/1" || !strings.HasPrefix(r.Read("got/Shelf.pdf"), "%PDF")) {
					t.Error("the files are not what was sent")
				}
				if u := s.received(); u != "one.txt: first\ntwo.txt: second" {
					t.Errorf("uploaded: %q", u)
				}
				r.NothingLeft()
				noProfileLeft(t, r)
			})
		}
	}
}

// Whatever a server calls a file, it is in the folder for downloads, under a name that can be seen, and over nothing else.
func TestBrowserDownloadsStayInTheirFolder(t *testing.T) {
	t.Parallel()
	names := []string{"../../../escape.txt", "..%5C..%5Cescape.txt", "/tmp/escape.txt", ".bashrc", "taken.txt", "link.txt"}
	s := newExchange(t, names...)
	script := act("c0", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))
	for i := range names {
		script += act(fmt.Sprint("d", i), fmt.Sprintf("{ click = { index = %d } }", i+3))
	}
	r := newBrowserWith(t, browsers[0], `    downloads = "got"`, script+done)
	outside := t.TempDir()
	r.Write("got/taken.txt", "mine")
	if err := os.Symlink(filepath.Join(outside, "made"), filepath.Join(r.Dir, "got", "link.txt")); err != nil {
		t.Fatal(err)
	}
	r.OK(append(append([]string{"exec"}, reaching("full-access")...), "go")...)
	out := r.Last().Outputs()
	for i, name := range names {
		if !strings.Contains(out[fmt.Sprint("d", i)], "Downloaded "+r.Dir+"/got/") {
			t.Errorf("%s: %s", name, out[fmt.Sprint("d", i)])
		}
	}
	list := entries(t, filepath.Join(r.Dir, "got"))
	if strings.Count(list, ", ") != 7 || !strings.Contains(list, "taken (1).txt") || !strings.Contains(list, "link (1).txt") || strings.Contains(list, ".bashrc") {
		t.Errorf("the folder has %s", list)
	}
	if r.Read("got/taken.txt") != "mine" || entries(t, outside) != "" || exists(r.Dir, "escape.txt") || exists("/tmp", "escape.txt") {
		t.Error("a file elsewhere was written")
	}
	r.NothingLeft()
}

// A folder for downloads that is a link out of the workspace, or is behind one, gets nothing, in any mode.
func TestBrowserDownloadsFollowNoLink(t *testing.T) {
	t.Parallel()
	for folder, link := range map[string]string{"got": "got", "in/got": "in"} {
		t.Run(strings.ReplaceAll(folder, "/", " "), func(t *testing.T) {
			t.Parallel()
			s := newExchange(t, "a.txt")
			r := newBrowserWith(t, browsers[0], fmt.Sprintf("    downloads = %q", folder), act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c2", "{ click = { index = 3 } }")+done)
			outside := t.TempDir()
			if err := os.Symlink(outside, filepath.Join(r.Dir, link)); err != nil {
				t.Fatal(err)
			}
			r.OK(append(append([]string{"exec"}, reaching("full-access")...), "go")...)
			if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "Downloaded a.txt, as an artifact, because it can't be written to") {
				t.Error(out)
			}
			if list := entries(t, outside); list != "" {
				t.Errorf("written outside: %s", list)
			}
			r.NothingLeft()
		})
	}
}

// What the sandbox hides is not uploaded, by whatever path, and neither is what a link leads to.
func TestBrowserUploadsNothingDenied(t *testing.T) {
	t.Parallel()
	s := newExchange(t)
	paths := []string{"keys/denied.txt", "./keys/../keys/denied.txt", "link.txt", "folder/denied.txt", "keys", "/proc/self/environ", "fine.txt"}
	script := act("c0", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))
	for i, p := range paths {
		script += act(fmt.Sprint("u", i), fmt.Sprintf("{ upload_file = { index = 1, paths = [%q] } }", p))
	}
	r := newBrowserWith(t, browsers[0], "", script+act("c9", "{ click = { index = 2 } }")+done)
	r.Write("keys/denied.txt", "KEY OF THE USER")
	r.Write("fine.txt", "fine")
	for link, to := range map[string]string{"link.txt": "keys/denied.txt", "folder": "keys"} {
		if err := os.Symlink(to, filepath.Join(r.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	r.OK(append(append([]string{"exec", "-c", `sandbox.deny_read=["keys"]`}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	for i, p := range paths {
		text := out[fmt.Sprint("u", i)]
		if p == "fine.txt" {
			if !strings.Contains(text, `Uploaded "fine.txt"`) {
				t.Errorf("%s: %s", p, text)
			}
		} else if !strings.Contains(text, "can't be uploaded") && !strings.Contains(text, "denied") {
			t.Errorf("%s: %s", p, text)
		}
	}
	if got := s.received(); got != "fine.txt: fine" {
		t.Errorf("uploaded: %q", got)
	}
	r.NothingLeft()
}
