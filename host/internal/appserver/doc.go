// Package appserver serves the protocol of package protocol: it is the API behind every front end.
//
// It owns: methods, subscriptions of clients, and the requests that the server sends to them. It does not know how a thread runs or
// where, which is hub's, or how messages travel, which is transport's and rpc's.
//
// Start with package transport.
package appserver
