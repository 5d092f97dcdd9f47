// examples/go/heapwalk_free/main.go -- what a few survivors pin: the twin of workloads/heapwalk_free.c.
package main

import "teaspan/workloads/internal/heapwalk"

func main() {
	heapwalk.FreeMain("heapwalk_free", false)
}
