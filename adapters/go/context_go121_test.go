//go:build go1.21

package maitred

import (
	"context"
	"errors"
	"testing"
)

func TestTheCauseIsThatOfTheContextItself(t *testing.T) {
	reason := errors.New("reason")
	base, cancel := context.WithCancelCause(context.Background())
	ctx := newContext(base)
	ctx.cancel()
	if cause := context.Cause(ctx); cause != context.Canceled {
		t.Error(cause)
	}
	other := newContext(base)
	cancel(reason)
	if cause := context.Cause(other); cause != reason {
		t.Error(cause)
	}
}
