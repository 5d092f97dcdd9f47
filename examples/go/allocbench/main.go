// examples/go/allocbench/main.go -- strings built in batches: collected, bump-allocated, or recycled:
// the twin of workloads/allocbench.c.
package main

import (
	"strings"
	"sync"
	"time"

	"teaspan/workloads/internal/workload"
)

const (
	batch           = 1000
	keyspace        = 1000
	repeats         = 4
	numberWidth     = 6
	numberLimit     = 1000000
	maxAllocs       = 1000000000
	poolBufferBytes = 48 // the longest result between concatenations has 45
	arenaChunkBytes = 64 << 10
)

var (
	nallocs uint64 = 200000
	variant        = "default"
)

var allocbench = workload.Workload{
	Name:     "allocbench",
	Synopsis: "[--allocs N] [--variant default|arena|pool]",
	Args: []workload.Arg{
		{Name: "--allocs", Kind: workload.Number, Min: 1, Max: maxAllocs, Number: &nallocs},
		{Name: "--variant", Kind: workload.Choice, Choices: "default|arena|pool", Text: &variant},
	},
}

func makeKey(i uint64) string {
	var buffer [32]byte
	return string(workload.AppendNumber(append(buffer[:0], "allocbench/record/"...), i%keyspace, numberWidth))
}

func appendFragment(to []byte, i uint64) []byte {
	return workload.AppendNumber(append(to, "fragment-"...), i%numberLimit, numberWidth)
}

// runDefault leaves fragments and the results between concatenations to the collector.
func runDefault(m map[string]string) {
	kept := make([]string, 0, batch)
	for i := range nallocs {
		key := makeKey(i)
		var buffer [32]byte
		fragment := string(appendFragment(buffer[:0], i))
		result := fragment
		for range repeats - 1 {
			result += fragment
		}
		m[key] = result
		if kept = append(kept, fragment); len(kept) == batch {
			clear(kept)
			kept = kept[:0]
		}
	}
}

// arena is a chain of chunks that texts are cut from; reset keeps the chunks.
type arena struct {
	chunks  [][]byte
	current int
	used    int
}

// take returns an empty slice with room for n bytes.
func (a *arena) take(n int) []byte {
	if a.used+n > arenaChunkBytes {
		a.current++
		a.used = 0
	}
	if a.current == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, arenaChunkBytes))
	}
	block := a.chunks[a.current][a.used : a.used : a.used+n]
	a.used += (n + 15) &^ 15
	return block
}

func (a *arena) reset() { a.current, a.used = 0, 0 }

func runArena(m map[string]string) {
	var scratch arena
	kept := make([][]byte, 0, batch)
	fragmentBytes := len(appendFragment(nil, 0))
	for i := range nallocs {
		key := makeKey(i)
		fragment := appendFragment(scratch.take(fragmentBytes), i)
		result := fragment
		for r := 2; r < repeats; r++ {
			result = append(append(scratch.take(r*fragmentBytes), result...), fragment...)
		}
		m[key] = joined(result, fragment)
		if kept = append(kept, fragment); len(kept) == batch {
			clear(kept)
			kept = kept[:0]
			scratch.reset()
		}
	}
}

// joined is a new string of both parts.
func joined(a, b []byte) string {
	var result strings.Builder
	result.Grow(len(a) + len(b))
	result.Write(a)
	result.Write(b)
	return result.String()
}

type poolBuffer [poolBufferBytes]byte

func runPool(m map[string]string) {
	pool := sync.Pool{New: func() any { return new(poolBuffer) }}
	kept := make([]*poolBuffer, 0, batch)
	for i := range nallocs {
		key := makeKey(i)
		owned := pool.Get().(*poolBuffer)
		fragment := appendFragment(owned[:0], i)
		var between *poolBuffer
		result := fragment
		for range repeats - 2 {
			buffer := pool.Get().(*poolBuffer)
			result = append(append(buffer[:0], result...), fragment...)
			if between != nil {
				pool.Put(between)
			}
			between = buffer
		}
		m[key] = joined(result, fragment)
		pool.Put(between)
		if kept = append(kept, owned); len(kept) == batch {
			for _, buffer := range kept {
				pool.Put(buffer)
			}
			clear(kept)
			kept = kept[:0]
		}
	}
}

// lastWithKey is the last iteration that stored under the key of iteration i.
func lastWithKey(i uint64) uint64 { return i + (nallocs-1-i)/keyspace*keyspace }

func check(m map[string]string) {
	nkeys := min(nallocs, keyspace)
	if uint64(len(m)) != nkeys {
		workload.Fail("the map has %d keys, not %d", len(m), nkeys)
	}
	for i := range nkeys {
		if m[makeKey(i)] != strings.Repeat(string(appendFragment(nil, lastWithKey(i))), repeats) {
			workload.Fail("wrong value under key %d", i)
		}
	}
}

func main() {
	workload.Start(&allocbench)
	m := map[string]string{}
	runs := map[string]func(map[string]string){"default": runDefault, "arena": runArena, "pool": runPool}

	begin := time.Now()
	runs[variant](m)
	run := time.Since(begin)

	check(m)
	workload.Report(workload.Run{Variant: variant, Allocs: nallocs, Time: run}, " keys=%d", len(m))
}
