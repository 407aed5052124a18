//go:build !race

package maitred

import "testing"

// What is allocated is what the garbage collector has to find again: a request takes less than half of what it does by net/http
// alone.
func TestARequestAllocatesLittle(t *testing.T) {
	alone, here := testing.Benchmark(BenchmarkNetHTTP), testing.Benchmark(BenchmarkRequest)
	count, bytes := here.AllocsPerOp(), here.AllocedBytesPerOp()
	if count == 0 || 2*count > alone.AllocsPerOp() || bytes > alone.AllocedBytesPerOp() {
		t.Errorf("here %s, by net/http alone %s", here.MemString(), alone.MemString())
	}
}
