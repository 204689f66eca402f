package network

// ServerName is for tests that fuzz it.
var ServerName = serverName
