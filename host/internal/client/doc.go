// Package client is the side of the app server's protocol that front ends share: a connection that comes back, and a thread as a value.
//
// It owns: connecting again after an interruption, the order of what arrives, and the fold of notifications into a [Thread]. It does not
// know how a thread is shown, or what is at the other end of the connection.
//
// Start with [Conn] and [Thread.Apply]. The transcripts in testdata are the reducer's test; reducers in other languages read them too.
package client
