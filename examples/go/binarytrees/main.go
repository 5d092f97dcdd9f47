// examples/go/binarytrees/main.go -- build and walk many short-lived binary trees: the twin of workloads/binarytrees.c.
package main

import (
	"sync"
	"sync/atomic"
	"time"

	"teaspan/workloads/internal/workload"
)

const (
	minDepth   = 4
	maxDepth   = 30
	maxThreads = 64
)

var (
	depthArg    uint64
	nthreadsArg uint64 = 1
)

var binarytrees = workload.Workload{
	Name:     "binarytrees",
	Synopsis: "DEPTH [THREADS]",
	Args: []workload.Arg{
		{Name: "depth", Kind: workload.Number, Min: minDepth, Max: maxDepth, Number: &depthArg},
		{Name: "threads", Kind: workload.Number, Min: 1, Max: maxThreads, Number: &nthreadsArg, Optional: true},
	},
}

type node struct {
	left, right *node
}

func buildTree(depth uint64) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{buildTree(depth - 1), buildTree(depth - 1)}
}

func (n *node) count() uint64 {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func treeNodes(depth uint64) uint64           { return 1<<(depth+1) - 1 }
func treesOfDepth(limit, depth uint64) uint64 { return 1 << (limit - depth + minDepth) }
func buildCountDrop(depth uint64) uint64      { return buildTree(depth).count() }

// runShare builds one goroutine's share of the short-lived trees.
func runShare(limit, index, nthreads uint64) (nnodes uint64) {
	for depth := uint64(minDepth); depth <= limit; depth += 2 {
		for i := index; i < treesOfDepth(limit, depth); i += nthreads {
			nnodes += buildCountDrop(depth)
		}
	}
	return nnodes
}

func runShares(limit, nthreads uint64) uint64 {
	var others atomic.Uint64
	var running sync.WaitGroup
	for i := uint64(1); i < nthreads; i++ {
		running.Go(func() { others.Add(runShare(limit, i, nthreads)) })
	}
	own := runShare(limit, 0, nthreads)
	running.Wait()
	return own + others.Load()
}

func nodesExpected(limit uint64) uint64 {
	nnodes := treeNodes(limit+1) + treeNodes(limit)
	for depth := uint64(minDepth); depth <= limit; depth += 2 {
		nnodes += treesOfDepth(limit, depth) * treeNodes(depth)
	}
	return nnodes
}

func main() {
	workload.Start(&binarytrees)

	begin := time.Now()
	nnodes := buildCountDrop(depthArg + 1)
	longLived := buildTree(depthArg)
	nnodes += runShares(depthArg, nthreadsArg)
	nnodes += longLived.count()
	run := time.Since(begin)

	if nnodes != nodesExpected(depthArg) {
		workload.Fail("counted %d nodes, not %d", nnodes, nodesExpected(depthArg))
	}
	workload.Report(workload.Run{Time: run}, " depth=%d threads=%d", depthArg, nthreadsArg)
}
