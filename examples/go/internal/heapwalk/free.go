// examples/go/internal/heapwalk/free.go -- drop nine objects in ten and see what the tenth keeps from being reused:
// the twin of workloads/support_heapwalk_free.c.
package heapwalk

import (
	"runtime"
	"time"
	"unsafe"

	"teaspan/workloads/internal/workload"
)

const (
	keepOneIn  = 10
	maxObjects = 100000000
)

func filled(count int) *Walk {
	walk := New(count)
	for i := range walk.Objects {
		walk.Objects[i] = NewObject(i)
	}
	return walk
}

func (w *Walk) dropMost() {
	for i := range w.Objects {
		if i%keepOneIn != 0 {
			w.Objects[i] = nil
		}
	}
}

func (w *Walk) copySurvivorsDropAll() {
	copies := make([]unsafe.Pointer, len(w.Objects))
	for i := 0; i < len(copies); i += keepOneIn {
		copies[i] = w.CopyObject(i)
	}
	clear(w.Objects)
	w.Objects = copies
}

func footprint() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}

// FreeMain is the whole program. copySurvivors: they are copied to fresh objects before all the old ones are dropped.
func FreeMain(name string, copySurvivors bool) {
	nobjects := uint64(50000)
	workload.Start(&workload.Workload{
		Name:     name,
		Synopsis: "[--objects N]",
		Args: []workload.Arg{
			{Name: "--objects", Kind: workload.Number, Min: 1, Max: maxObjects, Number: &nobjects},
		},
	})

	begin := time.Now()
	walk := filled(int(nobjects))
	spansBefore := walk.Spans()
	before := footprint()
	if copySurvivors {
		walk.copySurvivorsDropAll()
	} else {
		walk.dropMost()
	}
	runtime.GC()
	after := footprint()
	spansAfter := walk.Spans()
	run := time.Since(begin)

	nkept := (int(nobjects) + keepOneIn - 1) / keepOneIn
	walk.Check(nkept)
	workload.Report(workload.Run{Allocs: nobjects, Time: run},
		" kept=%d spans_before=%d spans_after=%d inuse_before=%d inuse_after=%d idle_before=%d idle_after=%d"+
			" released_before=%d released_after=%d",
		nkept, spansBefore, spansAfter, before.HeapInuse, after.HeapInuse, before.HeapIdle, after.HeapIdle,
		before.HeapReleased, after.HeapReleased)
}
