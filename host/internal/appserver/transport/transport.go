// Package transport connects clients to the app server: over stdin and stdout, over a unix socket, and over a websocket.
//
// It owns: the address to listen on, and the authentication of clients. It does not know the protocol, its methods, or threads.
//
// Start with [Flags].
package transport
