// examples/go/strings/main.go -- short-lived strings: parts that share their text, and numbers formatted:
// the twin of workloads/strings.c.
package main

import (
	"strconv"
	"strings"
	"time"

	"teaspan/workloads/internal/workload"
)

const (
	ntexts       = 1000
	trimsPerText = 20
	textBytes    = 47
	wordBytes    = 15
	numberWidth  = 8
	maxAllocs    = 1000000000
)

var (
	nallocs uint64 = 10000000
	variant string
)

var program = workload.Workload{
	Name:     "strings",
	Synopsis: "[--allocs N] trim|itoa",
	Args: []workload.Arg{
		{Name: "--allocs", Kind: workload.Number, Min: 1, Max: maxAllocs, Number: &nallocs},
		{Name: "variant", Kind: workload.Choice, Choices: "trim|itoa", Text: &variant},
	},
}

func makePadded(number uint64) string {
	var buffer [textBytes]byte
	for i := range buffer {
		buffer[i] = ' '
	}
	word := buffer[number%(textBytes-wordBytes):]
	workload.AppendNumber(append(word[:0], "record-"...), number, numberWidth)
	return string(buffer[:])
}

// digest is a sum over a string that shows whether it is the right one.
func digest(text string) uint64 { return uint64(len(text)) + uint64(text[len(text)-1]) }

func trimAll() (sum uint64) {
	texts := make([]string, ntexts)
	parts := make([]string, ntexts)
	for i := range nallocs {
		if i%(ntexts*trimsPerText) == 0 {
			clear(parts)
			for k := range texts {
				texts[k] = makePadded(i/trimsPerText + uint64(k))
			}
		}
		part := strings.TrimSpace(texts[i%ntexts])
		parts[i%ntexts] = part
		sum += digest(part)
	}
	return sum
}

// trimExpected: ntexts is a multiple of 10, so the last digits go round as i does.
func trimExpected() uint64 {
	return nallocs*(wordBytes+'0') + nallocs/10*45 + nallocs%10*(nallocs%10-1)/2
}

func itoaAll() (sum uint64) {
	for i := range nallocs {
		sum += digest(strconv.FormatUint(i, 10))
	}
	return sum
}

// itoaExpected: every number has one digit, those from 10 one more, those from 100 one more yet.
func itoaExpected() uint64 {
	sum := nallocs*(1+'0') + nallocs/10*45 + nallocs%10*(nallocs%10-1)/2
	for power := uint64(10); power < nallocs; power *= 10 {
		sum += nallocs - power
	}
	return sum
}

func main() {
	workload.Start(&program)
	run, expect := trimAll, trimExpected
	if variant == "itoa" {
		run, expect = itoaAll, itoaExpected
	}

	begin := time.Now()
	sum := run()
	took := time.Since(begin)

	if sum != expect() {
		workload.Fail("the sum is %d, not %d", sum, expect())
	}
	workload.Report(workload.Run{Variant: variant, Allocs: nallocs, Time: took}, " sum=%d", sum)
}
