package host

// RefusingReads makes the store of a host refuse every read.
func RefusingReads(o Options) Options {
	o.refuseReads = true
	return o
}
