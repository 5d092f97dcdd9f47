// examples/go/readorder/main.go -- collections of a large graph whose nodes are met in memory order, or not:
// the twin of workloads/readorder.c.
package main

import (
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"time"

	"teaspan/workloads/internal/rng"
	"teaspan/workloads/internal/workload"
)

const (
	nrefs         = 4
	seed          = 1
	defaultNodes  = 2000000
	maxNodes      = 1 << 30
	maxGCs        = 1000000
	nodesPerFresh = 16
)

var (
	nnodesArg uint64 // 0: defaultNodes, or as many as the file names
	ngcsArg   uint64 = 100
	variant   string
)

var readorder = workload.Workload{
	Name:     "readorder",
	Synopsis: "[--nodes N] [--gcs N] packed|scattered|FILE.idx",
	Args: []workload.Arg{
		{Name: "--nodes", Kind: workload.Number, Min: 1, Max: maxNodes, Number: &nnodesArg},
		{Name: "--gcs", Kind: workload.Number, Min: 1, Max: maxGCs, Number: &ngcsArg},
		{Name: "variant", Kind: workload.Text, Text: &variant},
	},
}

type node struct {
	refs [nrefs]*node
}

type graph struct {
	nnodes     int
	index      []*node
	randomRefs bool
	rng        rng.RNG // as it was before the first reference was drawn
}

func newNodes(nnodes int) []*node {
	nodes := make([]*node, nnodes)
	for i := range nodes {
		nodes[i] = new(node)
	}
	return nodes
}

func shuffle(nodes []*node, r *rng.RNG) {
	for i := len(nodes) - 1; i > 0; i-- {
		j := r.Below(uint32(i) + 1)
		nodes[i], nodes[j] = nodes[j], nodes[i]
	}
}

// target is the node that reference k of the node at position i leads to. Call in order of i and k.
func (g *graph) target(i, k int, r *rng.RNG) *node {
	if g.randomRefs {
		return g.index[r.Below(uint32(len(g.index)))]
	}
	return g.index[(i+1+k)%len(g.index)]
}

func (g *graph) link() {
	r := g.rng
	for i, n := range g.index {
		for k := range n.refs {
			n.refs[k] = g.target(i, k, &r)
		}
	}
}

// intactRefs counts references that lead where link let them: all, unless a file names a node twice.
func (g *graph) intactRefs() (nintact uint64) {
	r := g.rng
	for i, n := range g.index {
		for k := range n.refs {
			if n.refs[k] == g.target(i, k, &r) {
				nintact++
			}
		}
	}
	return nintact
}

func graphInOrder() *graph {
	nnodes := defaultNodes
	if nnodesArg != 0 {
		nnodes = int(nnodesArg)
	}
	return &graph{nnodes: nnodes, index: newNodes(nnodes)}
}

func graphAtRandom() *graph {
	g := graphInOrder()
	g.randomRefs = true
	g.rng = seed
	shuffle(g.index, &g.rng)
	return g
}

func readFile(path string) []byte {
	bytes, err := os.ReadFile(path)
	if err != nil {
		workload.Fail("cannot read %s", path)
	}
	if len(bytes) == 0 || len(bytes)%4 != 0 {
		workload.Fail("%s is not a list of uint32 numbers", path)
	}
	return bytes
}

func fileNumber(bytes []byte, i int) uint32 { return binary.LittleEndian.Uint32(bytes[4*i:]) }

func fileNodes(bytes []byte, path string) int {
	nnodes := uint64(0)
	for i := range len(bytes) / 4 {
		nnodes = max(nnodes, uint64(fileNumber(bytes, i))+1)
	}
	limit := uint64(maxNodes)
	if nnodesArg != 0 {
		limit = nnodesArg
	}
	if nnodes > limit {
		workload.Fail("%s names node %d, but there are %d", path, nnodes-1, limit)
	}
	if nnodesArg != 0 {
		nnodes = nnodesArg
	}
	return int(nnodes)
}

func graphFromFile(path string) *graph {
	bytes := readFile(path)
	nodes := newNodes(fileNodes(bytes, path))
	g := &graph{nnodes: len(nodes), index: make([]*node, len(bytes)/4)}
	for i := range g.index {
		g.index[i] = nodes[fileNumber(bytes, i)]
	}
	return g
}

func newGraph() (g *graph) {
	switch variant {
	case "packed":
		g = graphInOrder()
	case "scattered":
		g = graphAtRandom()
	default:
		g = graphFromFile(variant)
	}
	g.link()
	return g
}

// allocateOverFreed would clear a node of the graph if a collection had freed it.
func allocateOverFreed(nfresh int) *node {
	var chain *node
	for range nfresh {
		fresh := new(node)
		fresh.refs[0] = chain
		chain = fresh
	}
	return chain
}

func checkVariant() {
	file := len(variant) > 4 && strings.HasSuffix(variant, ".idx")
	if !file && variant != "packed" && variant != "scattered" {
		readorder.Reject("unknown variant", variant)
	}
}

func main() {
	workload.Start(&readorder)
	checkVariant()

	begin := time.Now()
	g := newGraph()
	build := time.Since(begin)
	nintact := g.intactRefs()
	runtime.GC()

	begin = time.Now()
	for range ngcsArg {
		runtime.GC()
	}
	gcs := time.Since(begin)

	runtime.KeepAlive(allocateOverFreed(g.nnodes / nodesPerFresh))
	if g.intactRefs() != nintact {
		workload.Fail("the graph has changed")
	}
	workload.Report(workload.Run{Variant: variant, Allocs: uint64(g.nnodes), Time: build + gcs},
		" gcs=%d ms_per_gc=%.3f", ngcsArg, gcs.Seconds()*1e3/float64(ngcsArg))
}
