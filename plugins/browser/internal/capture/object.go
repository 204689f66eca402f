package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Object calls a function, which is not asynchronous, with an element of the frame (undefined: it is gone) and more arguments, and returns the
// object that it returns; "": none. The page sees nothing of the function. Release the object by releasing [Objects].
func (f *Frame) Object(ctx context.Context, function string, element int, args ...any) (runtime.RemoteObjectID, error) {
	o, err := f.apply(ctx, function, false, element, args)
	if err != nil {
		return "", err
	}
	return o.ObjectID, nil
}

// Value is Object with a function whose result is parsed into out.
func (f *Frame) Value(ctx context.Context, function string, out any, element int, args ...any) error {
	o, err := f.apply(ctx, function, true, element, args)
	if err != nil {
		return err
	}
	return json.Unmarshal(o.Value, out)
}

// Objects is the group of the objects that Object returns.
const Objects = "gantry-objects"

func (f *Frame) apply(ctx context.Context, function string, byValue bool, element int, args []any) (*runtime.RemoteObject, error) {
	list := []*runtime.CallArgument{{Value: jsonv2.Value(fmt.Sprint(element))}}
	for _, a := range args {
		b, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		list = append(list, &runtime.CallArgument{Value: b})
	}
	r, err := protocol.Call(ctx, f.Session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function(i, ...args) { return (" + function + ")(globalThis.gantryElement?.(i), ...args) }",
		Arguments:           list, ExecutionContextID: f.world, ReturnByValue: new(byValue), Silent: new(true), ObjectGroup: Objects,
	})
	if e, ok := errors.AsType[*cdp.Error](err); ok && e.Code == -32000 {
		return nil, fmt.Errorf("%w (%s)", ErrChanged, e.Message)
	}
	if err != nil {
		return nil, err
	}
	if r.ExceptionDetails != nil {
		return nil, errors.New(Exception(r.ExceptionDetails))
	}
	return r.Result, nil
}
