package policy

// localArrival is a query as this client's own tracker of an unprobed replica saw it.
type localArrival struct {
	// watch is the number of the watch in which it was sent; 0 is none.
	watch     uint32
	others    uint32
	at        Instant
	headReady bool
}
