//go:build !unix

package load

// ProcessCPU returns the CPU time of this process, for [Options.CPU]. On this system it always
// reports false.
func ProcessCPU() (CPUTotals, bool) { return CPUTotals{}, false }
