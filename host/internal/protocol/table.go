package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Version is the version of codex's app server whose protocol this package describes.
const Version = "0.169.0"

// MethodSpec describes a method that clients call.
type MethodSpec struct {
	Name         string
	Params       reflect.Type // a struct; [NoParams] if the method has none
	Result       reflect.Type
	Experimental bool // the method needs the capability experimentalApi
	Key          Key
	Since        string // the [Version] that introduced it
}

// Method is a [MethodSpec] with the types of its parameters and of its result.
type Method[P, R any] struct{ *MethodSpec }

// NotificationSpec describes a notification that the server sends.
type NotificationSpec struct {
	Name         string
	Params       reflect.Type
	Experimental bool // it is sent only to clients with the capability experimentalApi
	Scope        Scope
	Since        string
}

// Notification is a [NotificationSpec] with the type of its parameters.
type Notification[P any] struct{ *NotificationSpec }

// ServerRequestSpec describes a request that the server sends to a client.
type ServerRequestSpec struct {
	Name         string
	Params       reflect.Type
	Result       reflect.Type
	Experimental bool
	Since        string
}

// ServerRequest is a [ServerRequestSpec] with the types of its parameters and of its result.
type ServerRequest[P, R any] struct{ *ServerRequestSpec }

// Scope says which connections receive a notification.
type Scope int

// Scopes.
const (
	ToAll         Scope = iota + 1 // all initialized connections
	ToSubscribers                  // those that are subscribed to the thread
	ToConnection                   // the one whose request caused it
)

func (s Scope) String() string {
	switch s {
	case ToAll:
		return "all"
	case ToSubscribers:
		return "subscribers"
	case ToConnection:
		return "connection"
	}
	return fmt.Sprintf("Scope(%d)", int(s))
}

// Key says which requests are processed one at a time, in the order in which they arrived: those with the same key. The zero Key is none:
// such requests are processed concurrently.
type Key struct {
	Family string // "thread", "config", …
	Field  string // the field of the parameters that names the object, as in JSON; empty: the family has one key
	Shared bool   // consecutive shared requests of a key are processed concurrently
	Local  bool   // each connection has keys of its own
}

// Of returns the key of a request with these parameters, which need not be valid. It is empty if the request has none.
func (k Key) Of(params json.RawMessage) string {
	if k.Field == "" {
		return k.Family
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(params, &fields) // then the request will be refused
	var object string
	_ = json.Unmarshal(fields[k.Field], &object)
	return k.Family + ":" + object
}

func (k Key) String() string {
	s := k.Family
	if k.Field != "" {
		s += ":" + k.Field
	}
	if k.Shared {
		s += " (shared)"
	}
	return s
}

func byThread() Key { return Key{Family: "thread", Field: "threadId"} }

// experimental marks a row as experimental.
const experimental = true

func method[P, R any](name string, key Key, experimental ...bool) Method[P, R] {
	m := &MethodSpec{
		Name: name, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Experimental: slices.Contains(experimental, true),
		Key: key, Since: Version,
	}
	return Method[P, R]{m}
}

func notification[P any](name string, scope Scope, experimental ...bool) Notification[P] {
	return Notification[P]{&NotificationSpec{
		Name: name, Params: reflect.TypeFor[P](), Experimental: slices.Contains(experimental, true), Scope: scope, Since: Version,
	}}
}

func serverRequest[P, R any](name string, experimental ...bool) ServerRequest[P, R] {
	return ServerRequest[P, R]{&ServerRequestSpec{
		Name: name, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Experimental: slices.Contains(experimental, true), Since: Version,
	}}
}

// NoParams are the parameters of a method that has none: they may be absent, null or an object.
type NoParams struct{}
