package threadsocket

// NewClient makes a client of a connection, for tests without a socket.
var NewClient = newClient
