//go:build race

package probe

const raceEnabled = true
