// examples/go/internal/heapwalk/walk.go -- the objects that the heapwalk programs look at, and where they lie:
// the twin of workloads/support_heapwalk.c.
package heapwalk

import (
	"slices"
	"unsafe"

	"teaspan/workloads/internal/workload"
)

const (
	Sizes     = 3
	PageShift = 13
	smallest  = 32
)

// Walk holds objects without references, of 32, 64 and 128 bytes in rotation, each filled with a pattern of its own.
type Walk struct {
	Objects []unsafe.Pointer // nil where the object was dropped
	pages   []uintptr        // scratch for Spans
}

// New has room for count objects, all nil.
func New(count int) *Walk {
	return &Walk{make([]unsafe.Pointer, count), make([]uintptr, count)}
}

func objectBytes(i int) int { return smallest << (i % Sizes) }

func alloc(i int) unsafe.Pointer {
	switch objectBytes(i) {
	case smallest:
		return unsafe.Pointer(new([smallest]byte))
	case 2 * smallest:
		return unsafe.Pointer(new([2 * smallest]byte))
	default:
		return unsafe.Pointer(new([4 * smallest]byte))
	}
}

func contents(object unsafe.Pointer, i int) []byte {
	return unsafe.Slice((*byte)(object), objectBytes(i))
}

// NewObject allocates object i and fills it.
func NewObject(i int) unsafe.Pointer {
	object := alloc(i)
	bytes := contents(object, i)
	for at := range bytes {
		bytes[at] = byte(i%251 + 1)
	}
	return object
}

// CopyObject is a fresh copy of object i.
func (w *Walk) CopyObject(i int) unsafe.Pointer {
	object := alloc(i)
	copy(contents(object, i), contents(w.Objects[i], i))
	return object
}

// Spans counts pages of 8 KiB, the size of a small span, that hold at least one object.
func (w *Walk) Spans() int {
	pages := w.pages[:0]
	for _, object := range w.Objects {
		if object != nil {
			pages = append(pages, uintptr(object)>>PageShift)
		}
	}
	slices.Sort(pages)
	return len(slices.Compact(pages))
}

// Check ends the program if an object does not hold its pattern, or fewer than nkept are there.
func (w *Walk) Check(nkept int) {
	nfound := 0
	for i, object := range w.Objects {
		if object == nil {
			continue
		}
		nfound++
		for _, b := range contents(object, i) {
			if b != byte(i%251+1) {
				workload.Fail("object %d has changed", i)
			}
		}
	}
	if nfound != nkept {
		workload.Fail("%d objects are left, not %d", nfound, nkept)
	}
}
