// examples/go/internal/workload/number.go -- numbers as text, as the workloads in C format them.
package workload

import "strconv"

// AppendNumber appends n's decimal digits with zeros in front up to width.
func AppendNumber(to []byte, n uint64, width int) []byte {
	ndigits := 1
	for rest := n / 10; rest > 0; rest /= 10 {
		ndigits++
	}
	for ; ndigits < width; ndigits++ {
		to = append(to, '0')
	}
	return strconv.AppendUint(to, n, 10)
}
