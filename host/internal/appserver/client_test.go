package appserver

import (
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// An error keeps its code, and its next step is in the data, unless there is other data already.
func TestWireErrorHasTheNextStep(t *testing.T) {
	plain := rpc.Errorf(rpc.InvalidRequest, "no")
	code := protocol.ConfigValidationError
	full := rpc.Errorf(rpc.InvalidParams, "no")
	full.Data = protocol.ErrorData{ConfigWriteErrorCode: &code}
	for _, tc := range []struct {
		err  error
		code int64
		next string
	}{
		{plain, rpc.InvalidRequest, ""},
		{hint.With(plain, "try again"), rpc.InvalidRequest, "try again"},
		{hint.With(full, "try again"), rpc.InvalidParams, ""},
		{hint.New("no", "try again"), rpc.InvalidRequest, "try again"}, // the user can act on it
		{errors.New("no"), rpc.Internal, ""},
	} {
		e, ok := errors.AsType[*rpc.Error](wireError(tc.err))
		if !ok || e.Code != tc.code || e.Message != "no" {
			t.Fatalf("%v: %+v", tc.err, e)
		}
		data, _ := e.Data.(protocol.ErrorData)
		if next := deref(data.Next); next != tc.next {
			t.Errorf("%v: next %q, want %q", tc.err, next, tc.next)
		}
	}
	if plain.Data != nil {
		t.Error("the error was changed")
	}
}
