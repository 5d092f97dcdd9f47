// examples/go/coll/main.go -- the two collections that most programs are made of: a map and a growing list:
// the twin of workloads/coll.c.
package main

import (
	"strconv"
	"time"

	"teaspan/workloads/internal/workload"
)

const (
	keyspace  = 50000
	maxAllocs = 1000000000
)

var (
	nallocs uint64 = 3000000
	variant string
)

var coll = workload.Workload{
	Name:     "coll",
	Synopsis: "[--allocs N] putget|push",
	Args: []workload.Arg{
		{Name: "--allocs", Kind: workload.Number, Min: 1, Max: maxAllocs, Number: &nallocs},
		{Name: "variant", Kind: workload.Choice, Choices: "putget|push", Text: &variant},
	},
}

func makeKey(number uint64) string {
	return "element-" + strconv.FormatUint(number, 10)
}

func putget() (sum uint64) {
	m := map[string]uint64{}
	for i := range nallocs {
		m[makeKey(i%keyspace)] = i
	}
	for i := range uint64(len(m)) {
		value, found := m[makeKey(i)]
		if !found {
			workload.Fail("key %d is not in the map", i)
		}
		sum += value
	}
	return sum
}

// putgetExpected: each key holds the last number put under it, together the last keyspace numbers.
func putgetExpected() uint64 {
	nkeys := min(nallocs, keyspace)
	return nkeys * (2*nallocs - nkeys - 1) / 2
}

func push() (sum uint64) {
	var list []uint64
	for i := range nallocs {
		list = append(list, i)
	}
	for _, item := range list {
		sum += item
	}
	return sum
}

func pushExpected() uint64 { return nallocs * (nallocs - 1) / 2 }

func main() {
	workload.Start(&coll)
	run, expect := putget, putgetExpected
	if variant == "push" {
		run, expect = push, pushExpected
	}

	begin := time.Now()
	sum := run()
	took := time.Since(begin)

	if sum != expect() {
		workload.Fail("the sum is %d, not %d", sum, expect())
	}
	workload.Report(workload.Run{Variant: variant, Allocs: nallocs, Time: took}, " sum=%d", sum)
}
