// examples/go/internal/workload/result.go -- start, time and report a run: the twin of workloads/support_result.c.
package workload

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var (
	name          = "workload"
	before, after runtime.MemStats
	stopped       bool
)

// Start reads the command line and notes what the runtime has allocated so far.
func Start(w *Workload) {
	name = w.Name
	w.parse(os.Args[1:])
	runtime.ReadMemStats(&before)
}

// Fail prints "NAME: message" on stderr and ends the program with status 1.
func Fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, fmt.Sprintf(format, args...))
	os.Exit(1)
}

// Run is what the program measured; the rest of the line is found by Report.
type Run struct {
	Variant string // "": the workload has no variants
	Allocs  uint64 // operations done; 0: the workload does not count in these
	Time    time.Duration
}

// Stop ends what alloc_bytes, alloc_objects and gc_cycles count, before a program allocates for its output.
func Stop() {
	runtime.ReadMemStats(&after)
	stopped = true
}

// Report prints the one line of result; more adds the workload's own keys.
func Report(run Run, more string, args ...any) {
	if !stopped {
		Stop()
	}
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)

	var line strings.Builder
	fmt.Fprintf(&line, "%s:", name)
	if run.Variant != "" {
		fmt.Fprintf(&line, " variant=%s", run.Variant)
	}
	if run.Allocs != 0 {
		fmt.Fprintf(&line, " allocs=%d", run.Allocs)
	}
	fmt.Fprintf(&line, " peak_rss=%dKB ms=%d gc_cycles=%d alloc_bytes=%d alloc_objects=%d",
		usage.Maxrss, run.Time.Round(time.Millisecond).Milliseconds(), after.NumGC-before.NumGC,
		after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs)
	fmt.Fprintf(&line, more+"\n", args...)
	if _, err := os.Stdout.WriteString(line.String()); err != nil {
		Fail("cannot write the result")
	}
}
