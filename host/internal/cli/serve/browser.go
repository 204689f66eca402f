package serve

import (
	"io"
	"os"
	"os/exec"
	"runtime"
)

// opener opens a link in the user's browser, if there is a program that does.
//
// That program may become the browser, which must not be in the process tree of this server: the server gives no access to processes that
// it has started, and adopts those whose parent has ended once its hub is open. So the opener is prepared before that, as the orphan of a
// shell, and waits for the link.
type opener struct {
	link io.WriteCloser // nil: on this system, another process opens links
}

// newOpener returns an opener. Its errors matter to no one: the link is printed in any case.
func newOpener(environ []string) *opener {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return &opener{}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return &opener{}
	}
	cmd := exec.Command("/bin/sh", "-c", `(read -r link && exec xdg-open "$link") <&3 3<&- >/dev/null 2>&1 &`)
	cmd.ExtraFiles = []*os.File{r} // descriptor 3
	cmd.Env = environ
	_ = cmd.Run() // it has left the rest to its child
	_ = r.Close()
	return &opener{w}
}

// open opens a link.
func (o *opener) open(link string, environ []string) {
	if o.link != nil {
		_, _ = io.WriteString(o.link, link+"\n")
		return
	}
	program := "open"
	if runtime.GOOS == "windows" {
		program = "explorer"
	}
	cmd := exec.Command(program, link)
	cmd.Env = environ
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // Owned by the program that opens the link: ends with it, or with this process.
	}
}

// close ends an opener that has opened nothing.
func (o *opener) close() {
	if o.link != nil {
		_ = o.link.Close()
	}
}
