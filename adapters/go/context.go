package maitred

import (
	"context"
	"net/http"
	"sync"
	"time"
)

type (
	mountKey struct{}
	userKey  struct{}
)

// user is who the user of a request is, and how Maitred has found it out.
type user struct{ name, scheme string }

// requestContext is the context of a request. Most handlers neither wait for its end nor make others of it: what that takes is
// made when somebody asks for it.
type requestContext struct {
	base context.Context
	meta *metaLines

	mu    sync.Mutex
	over  bool
	inner context.Context // of base, and cancelled with this one; nil until somebody asks
	end   context.CancelFunc
}

// Deadline is what context.Context says.
func (c *requestContext) Deadline() (time.Time, bool) { return c.base.Deadline() }

// Done is what context.Context says.
func (c *requestContext) Done() <-chan struct{} { return c.cancellable().Done() }

// Err is what context.Context says.
func (c *requestContext) Err() error {
	if c.isMade() {
		return c.cancellable().Err()
	}
	return c.base.Err()
}

// Value is what context.Context says. It has what net/http puts into a request's context; the values are made when somebody asks
// for them.
func (c *requestContext) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return tcpAddress(c.meta.local)
	case mountKey{}:
		return c.meta.mount
	case userKey{}:
		return user{c.meta.user, c.meta.authType}
	}
	if c.isMade() {
		return c.cancellable().Value(key)
	}
	return c.base.Value(key)
}

// String keeps package fmt from looking into what other goroutines change.
func (c *requestContext) String() string { return "maitred.request" }

// cancellable is a context of package context: those that are made of it end with it, and cost no goroutine each. The package
// finds it by Value, which it asks after Done.
func (c *requestContext) cancellable() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.end = context.WithCancel(c.base)
		if c.over {
			c.end()
		}
	}
	return c.inner
}

// isMade says that base does not speak for this context any more.
func (c *requestContext) isMade() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over || c.inner != nil
}

// cancel ends it.
func (c *requestContext) cancel() {
	c.mu.Lock()
	c.over = true
	cancel := c.end
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
