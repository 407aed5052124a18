package maitred

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"maitred/internal/front"
)

// RecoveryVariable is the environment variable by which Maitred names the socket over which this process gets another channel
// when the one that it has is lost.
const RecoveryVariable = "MAITRED_RECOVERY"

// recoveryPatience is how long another channel is waited for.
const recoveryPatience = 30 * time.Second

// noDescriptor stands where there is none.
const noDescriptor = -1

// life is what all channels of one process have in common, of which it has one after another.
type life struct {
	server   *http.Server
	base     context.Context
	recovery *os.File // nil if there is no other channel to be had
	name     string   // said in HELLO
	front    func(front.Exchange)

	requests sync.WaitGroup
	detached sync.WaitGroup

	mu      sync.Mutex
	present *channel
	leaving bool
}

func newLife(server *http.Server, recovery int) (*life, error) {
	l := &life{server: server, base: baseContext(server), name: "go net/http"}
	if recovery != noDescriptor {
		if err := syscall.SetNonblock(recovery, true); err != nil {
			return nil, err
		}
		l.recovery = os.NewFile(uintptr(recovery), "maitred recovery")
	}
	return l, nil
}

// run answers what comes on a channel, and on those that take its place when it is lost.
func (l *life) run(fd, capacity int) error {
	for {
		c, err := newChannel(fd, l)
		if err != nil {
			return fmt.Errorf("maitred: %w", err)
		}
		if !l.begin(c) {
			c.stopReceiving()
		}
		lost, err := c.run(capacity)
		if err != nil {
			c.close()
			return err
		}
		if !lost || l.recovery == nil || l.isLeaving() {
			c.drain()
			c.close()
			return nil
		}
		c.abandon()
		if fd = l.next(); fd == noDescriptor {
			c.drain()
			return nil
		}
	}
}

// begin makes a channel the one that stopReceiving ends; false if it has been called already.
func (l *life) begin(c *channel) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.present = c
	return !l.leaving
}

func (l *life) isLeaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving
}

// stopReceiving takes no more requests, and no other channel.
func (l *life) stopReceiving() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = true
	if l.recovery != nil {
		_ = l.recovery.SetReadDeadline(time.Unix(1, 0))
	}
	if l.present != nil {
		l.present.stopReceiving()
	}
}

// next waits for another channel; noDescriptor if there is none.
func (l *life) next() int {
	l.mu.Lock()
	deadline := time.Now().Add(recoveryPatience)
	if l.leaving {
		deadline = time.Unix(1, 0)
	}
	raw, err := l.recovery.SyscallConn()
	if err == nil {
		err = l.recovery.SetReadDeadline(deadline)
	}
	l.mu.Unlock()
	if err != nil {
		return noDescriptor
	}
	found := noDescriptor
	_ = raw.Read(func(fd uintptr) bool {
		var again bool
		found, again = receiveChannel(int(fd))
		return !again
	})
	return found
}

// receiveChannel takes one message of the recovery socket; again says that there was none yet.
func receiveChannel(fd int) (found int, again bool) {
	control := make([]byte, syscall.CmsgSpace(4))
	for {
		_, length, _, _, err := syscall.Recvmsg(fd, make([]byte, 1), control, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return noDescriptor, err == syscall.EAGAIN
		}
		messages, err := syscall.ParseSocketControlMessage(control[:length])
		if err != nil || len(messages) == 0 {
			return noDescriptor, false
		}
		rights, err := syscall.ParseUnixRights(&messages[0])
		if err != nil || len(rights) == 0 {
			return noDescriptor, false
		}
		return rights[0], false
	}
}

// obeySignals handles signals: it ends the channel at SIGTERM, and ignores SIGINT: a terminal sends that to all
// processes, and Maitred decides. The function that it returns ends this.
func (l *life) obeySignals() func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case which := <-signals:
				if which == syscall.SIGTERM {
					l.stopReceiving()
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

// close ends what is left of it.
func (l *life) close() {
	if l.recovery != nil {
		l.recovery.Close()
	}
}

// abandon drops a channel that is lost: its requests are cancelled, and those that have not begun never will.
func (c *channel) abandon() {
	for _, connection := range c.connections {
		connection.cancelAll()
	}
	c.close()
}

// cancelAll cancels all requests.
func (k *connection) cancelAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil {
		k.current.cancel()
	}
	for _, x := range k.queue {
		x.cancel()
	}
}
