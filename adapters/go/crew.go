package maitred

import (
	"runtime"
	"sync"
	"time"
)

const (
	// idleMax is how many goroutines without a request are kept for the next ones.
	idleMax = 64
	// turnMax is how long a goroutine takes requests before it lets others run: those whose requests have waited for something.
	turnMax = time.Millisecond
	// queueTaken is from where on places in the queue are used again before it is empty.
	queueTaken = 64
)

// crew runs requests in goroutines that are used again. One takes requests one after another; before it begins with one, it wakes
// another if more wait. So a handler that waits holds nothing up, and those that do not wait cost no goroutine each.
//
// While requests wait, either a woken goroutine is about to look for them (waking), or who added them is about to wake one.
type crew struct {
	reports *reports

	mu      sync.Mutex
	queue   []*exchange
	first   int // queue[:first] is taken
	idle    []*hand
	waking  bool
	dropped bool // the channel is over: nobody waits for more
}

// hand is one goroutine of a crew.
type hand struct {
	crew  *crew
	wake  chan struct{}
	woken bool
	turn  turn
}

// add queues requests; start has to follow.
func (c *crew) add(x *exchange) {
	c.mu.Lock()
	if taken := c.first; taken >= queueTaken && taken >= len(c.queue)/2 {
		kept := copy(c.queue, c.queue[taken:])
		for i := kept; i < len(c.queue); i++ {
			c.queue[i] = nil
		}
		c.queue, c.first = c.queue[:kept], 0
	}
	c.queue = append(c.queue, x)
	c.mu.Unlock()
}

// start has somebody look for what was added.
func (c *crew) start() {
	c.mu.Lock()
	c.wakeOne()
}

// wakeOne wakes a goroutine if requests wait and none is about to look for them. It is called with mu held, and releases it.
func (c *crew) wakeOne() {
	if c.waking || c.first == len(c.queue) {
		c.mu.Unlock()
		return
	}
	c.waking = true
	last := len(c.idle) - 1
	if last < 0 {
		c.mu.Unlock()
		go (&hand{crew: c, wake: make(chan struct{}, 1), woken: true}).work()
		return
	}
	h := c.idle[last]
	c.idle = c.idle[:last]
	c.mu.Unlock()
	h.wake <- struct{}{}
}

// end lets the goroutines end that have nothing to do.
func (c *crew) end() {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.dropped = nil, true
	c.mu.Unlock()
	for _, h := range idle {
		close(h.wake)
	}
}

// work answers requests as long as there is use for it.
func (h *hand) work() {
	over := false
	defer func() {
		if !over {
			// A handler has ended this goroutine (runtime.Goexit). If requests wait, another one is about to look for them.
			h.crew.reports.flush()
		}
	}()
	h.turn.begin()
	for x := h.take(); x != nil; x = h.take() {
		x.run(&h.turn)
	}
	over = true
}

// take is the next request; nil if this goroutine is to end. Reports leave before it waits, and before it begins with a request
// while nobody else could send them.
func (h *hand) take() *exchange {
	c := h.crew
	c.mu.Lock()
	if h.woken {
		c.waking, h.woken = false, false
	}
	for c.first == len(c.queue) {
		c.mu.Unlock()
		c.reports.flush()
		if !h.rest() {
			return nil
		}
		c.mu.Lock()
	}
	x := c.queue[c.first]
	c.queue[c.first] = nil
	if c.first++; c.first == len(c.queue) {
		c.queue, c.first = c.queue[:0], 0
		alone := !c.waking
		c.mu.Unlock()
		if alone {
			c.reports.flush()
		}
		return x
	}
	c.wakeOne()
	return x
}

// rest waits until requests have come; false if this goroutine is to end.
func (h *hand) rest() bool {
	c := h.crew
	c.mu.Lock()
	if c.first < len(c.queue) {
		c.mu.Unlock()
		return true
	}
	if c.dropped || len(c.idle) == idleMax {
		c.mu.Unlock()
		return false
	}
	c.idle = append(c.idle, h)
	c.mu.Unlock()
	if _, open := <-h.wake; !open {
		return false
	}
	h.turn.begin()
	c.mu.Lock()
	c.waking = false
	c.mu.Unlock()
	return true
}

// turn is the time since a goroutine was woken or has let others run.
type turn struct {
	now, began time.Time
	cpu        time.Duration // of this process when it began; only if one thread runs Go at a time
	alone      bool
}

func (t *turn) begin() {
	t.now = time.Now()
	t.began = t.now
	if t.alone = runtime.GOMAXPROCS(0) == 1; t.alone {
		t.cpu = processTime()
	}
}

// ended notes the time after a request, and lets others run if it is their turn.
func (t *turn) ended(now time.Time) {
	if t.now = now; now.Sub(t.began) > turnMax {
		runtime.Gosched()
		t.begin()
	}
}

// delays says that a request which took so long has kept other goroutines from running. With several threads none does. With one
// it does while it computes: not while it waited, or the kernel ran other processes.
func (t *turn) delays(took time.Duration, now time.Time) bool {
	if took <= slowRequest || !t.alone {
		return false
	}
	elsewhere := now.Sub(t.began) - (processTime() - t.cpu)
	return took-elsewhere > slowRequest
}
