//go:build unix

package load

import (
	"runtime"
	"syscall"
	"time"
)

// ProcessCPU returns the CPU time of this process, for [Options.CPU]. The limit is
// [runtime.GOMAXPROCS], which follows the quota of a container. How long threads wait for a CPU is
// not read, so capacity comes from latency and cores. It reports false where the system does not
// tell.
func ProcessCPU() (CPUTotals, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return CPUTotals{}, false
	}
	return CPUTotals{
		Used:            time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		LimitMillicores: 1_000 * uint32(runtime.GOMAXPROCS(0)),
	}, true
}
