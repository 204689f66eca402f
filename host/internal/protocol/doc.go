// Package protocol defines the messages of the app server: JSON-RPC methods, notifications and requests to clients, with the names and
// shapes of codex's app server.
//
// It owns the names, the types, the tables of methods and notifications, and their schemas. It does not know how a method is implemented
// or how messages are sent; it imports nothing of the host.
//
// Start with [Methods], [Notifications] and [ServerRequests].
//
// [Marshal] and [Method.Decode] convert messages. encoding/json works too, but writes nil lists as null and accepts parameters that lack
// required fields.
//
// Fields that a response may lack are pointers and null on the wire; optional fields of parameters have omitempty. Times are Unix times in
// seconds, or in milliseconds where the name ends with Ms.
package protocol
