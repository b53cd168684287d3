package timeline

import "container/heap"

// order gives things back by their time, as far as they may still come late: what is older than the window is given
// out, and what comes later than that is given out at once.
type order[T any] struct {
	window int64 // nanoseconds
	give   func(T) error
	heap   timed[T]
	n      uint64
	latest int64
}

func (o *order[T]) add(ns int64, v T) {
	o.n++
	heap.Push(&o.heap, entry[T]{ns, o.n, v})
}

// reach gives out what is older than now less the window.
func (o *order[T]) reach(now int64) error {
	o.latest = max(o.latest, now)
	return o.upTo(o.latest - o.window)
}

func (o *order[T]) upTo(ns int64) error {
	for len(o.heap) > 0 && o.heap[0].ns <= ns {
		if err := o.give(heap.Pop(&o.heap).(entry[T]).v); err != nil {
			return err
		}
	}
	return nil
}

type entry[T any] struct {
	ns int64
	n  uint64 // keeps the order of what has the same time
	v  T
}

type timed[T any] []entry[T]

func (h timed[T]) Len() int { return len(h) }
func (h timed[T]) Less(i, j int) bool {
	return h[i].ns < h[j].ns || h[i].ns == h[j].ns && h[i].n < h[j].n
}
func (h timed[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timed[T]) Push(v any)   { *h = append(*h, v.(entry[T])) }
func (h *timed[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = entry[T]{}
	*h = (*h)[:last]
	return v
}
