// examples/go/heapwalk/main.go -- a map of where objects lie, before and after a collection: the twin of
// workloads/heapwalk.c, whose head explains the map.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"teaspan/workloads/internal/heapwalk"
	"teaspan/workloads/internal/workload"
)

const (
	cellBytes  = 32
	rowCells   = 60
	rowBytes   = cellBytes * rowCells
	maxObjects = 1000000
)

var nobjects uint64 = 240

var program = workload.Workload{
	Name:     "heapwalk",
	Synopsis: "[--objects N]",
	Args: []workload.Arg{
		{Name: "--objects", Kind: workload.Number, Min: 1, Max: maxObjects, Number: &nobjects},
	},
}

// placed is an object as the map shows it.
type placed struct {
	offset    uintptr // from the page of the lowest object
	sizeIndex int
}

// placeObjects says where the objects lie, lowest first.
func placeObjects(walk *heapwalk.Walk) []placed {
	lowest := uintptr(math.MaxUint64)
	for _, object := range walk.Objects {
		lowest = min(lowest, uintptr(object))
	}
	lowest = lowest >> heapwalk.PageShift << heapwalk.PageShift
	all := make([]placed, len(walk.Objects))
	for i, object := range walk.Objects {
		all[i] = placed{uintptr(object) - lowest, i % heapwalk.Sizes}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.offset, b.offset) })
	return all
}

type row struct {
	index uintptr
	cells []byte
}

func newRow(index uintptr) row { return row{index, bytes.Repeat([]byte{'.'}, rowCells)} }

func (r row) print() { fmt.Fprintf(os.Stdout, "+0x%06x %s\n", r.index*rowBytes, r.cells) }

func printMap(title string, all []placed) {
	fmt.Println(title)
	current := newRow(all[0].offset / rowBytes)
	for _, p := range all {
		letter := byte('A' + p.sizeIndex)
		for cell := range uintptr(1) << p.sizeIndex {
			at := p.offset/cellBytes + cell
			if at/rowCells != current.index {
				current.print()
				current = newRow(at / rowCells)
			}
			current.cells[at%rowCells] = letter
			letter = byte('a' + p.sizeIndex)
		}
	}
	current.print()
}

var droppedAtOnce unsafe.Pointer

func fill(walk *heapwalk.Walk) {
	for i := range walk.Objects {
		walk.Objects[i] = heapwalk.NewObject(i)
		droppedAtOnce = heapwalk.NewObject(i)
	}
	droppedAtOnce = nil
}

func main() {
	workload.Start(&program)

	begin := time.Now()
	walk := heapwalk.New(int(nobjects))
	fill(walk)
	spansBefore := walk.Spans()
	before := placeObjects(walk)
	runtime.GC()
	after := placeObjects(walk)
	run := time.Since(begin)
	workload.Stop()

	walk.Check(len(walk.Objects))
	printMap("before the collection:", before)
	printMap("after the collection:", after)
	maps := "different"
	if slices.Equal(before, after) {
		maps = "identical"
	}
	workload.Report(workload.Run{Allocs: nobjects, Time: run},
		" maps=%s spans_before=%d spans_after=%d", maps, spansBefore, walk.Spans())
}
