package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
)

// usage is what the client and the servers have used since they started.
type usage struct {
	client, servers time.Duration
	probes          uint64
}

func usageNow(o *order) usage {
	now := usage{client: processCPU()}
	for _, process := range o.Processes {
		now.servers += otherCPU(process)
	}
	for _, channel := range slackwatergrpc.Channels() {
		now.probes += channel.Snapshot().Probes.Sent
	}
	return now
}

func (u usage) since(before usage) usage {
	return usage{
		client:  u.client - before.client,
		servers: u.servers - before.servers,
		probes:  u.probes - before.probes,
	}
}

// processCPU is the time on a CPU that this process has had.
func processCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// tick is the unit of times in /proc on all architectures that Go runs on.
const tick = 10 * time.Millisecond

// otherCPU is that of another process, or 0 if the system does not show it.
func otherCPU(process int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		return 0
	}
	return cpuOf(string(text))
}

// cpuOf is the CPU time in the text of /proc/…/stat. The second field is the program's name in
// brackets, and may have spaces; times of user and system are the 14th and the 15th.
func cpuOf(stat string) time.Duration {
	_, rest, _ := strings.Cut(stat[strings.LastIndex(stat, ")")+1:], " ")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0
	}
	var ticks uint64
	for _, field := range []string{fields[user], fields[system]} {
		count, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += count
	}
	return time.Duration(ticks) * tick
}
