//go:build race

package slackwatergrpc

// raceEnabled says that the race detector is on, which allocates.
const raceEnabled = true
