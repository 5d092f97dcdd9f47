// examples/go/internal/rng/rng.go -- a small generator of random numbers: the twin of workloads/support_random.h.
//
// Source. splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
package rng

// RNG holds the state; any seed will do.
type RNG uint64

// Next returns 64 random bits.
func (r *RNG) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number below limit, which is below 2^32.
func (r *RNG) Below(limit uint32) uint32 {
	return uint32((r.Next() >> 32) * uint64(limit) >> 32)
}
