// examples/go/heapwalk_free_manual/main.go -- compaction by hand: the twin of workloads/heapwalk_free_manual.c.
package main

import "teaspan/workloads/internal/heapwalk"

func main() {
	heapwalk.FreeMain("heapwalk_free_manual", true)
}
