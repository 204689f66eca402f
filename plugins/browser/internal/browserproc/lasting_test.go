package browserproc

import (
	"errors"
	"io"
	"os"
	"testing"
)

// The input of a browser stays open for the next process, and a browser that reads nothing does not hold up who leaves it.
func TestInputOutlivesItsWriter(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	first := Lasting(w)
	if n, err := first.Write([]byte("one")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := Lasting(w).Write([]byte("two")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	b := make([]byte, 6)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "onetwo" {
		t.Errorf("%q, %v", b, err)
	}
	held := Lasting(w)
	ended := make(chan error)
	go func() { // ends with Close
		_, err := held.Write(make([]byte, 1<<20)) // more than a pipe holds
		ended <- err
	}()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
