package maitred

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

func newContext(base context.Context) *requestContext {
	return &requestContext{base: base, meta: parseMeta("local=127.0.0.1:80\n")}
}

func TestAContextEnds(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context) error{
		"Err":  func(ctx context.Context) error { return ctx.Err() },
		"Done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"a context of it": func(ctx context.Context) error {
			made, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-made.Done()
			return made.Err()
		},
	} {
		// Asked before it ends, too, or not.
		for _, before := range []bool{false, true} {
			ctx := newContext(context.Background())
			if ctx.Err() != nil {
				t.Errorf("%s: it has ended before it was told to", name)
			}
			var done <-chan struct{}
			if before {
				done = ctx.Done()
			}
			ctx.cancel()
			if err := look(ctx); err != context.Canceled {
				t.Errorf("%s: %v", name, err)
			}
			if before {
				<-done
			}
		}
	}
}

func TestAContextEndsWithWhatItIsMadeOf(t *testing.T) {
	for _, asked := range []bool{false, true} {
		base, cancel := context.WithDeadline(context.Background(), time.Now().Add(time.Hour))
		ctx := newContext(base)
		if at, has := ctx.Deadline(); !has || at.IsZero() {
			t.Error("no deadline")
		}
		if asked {
			ctx.Done()
		}
		cancel()
		if ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		<-ctx.Done()
	}
}

// Package context takes what it knows for a parent; anything else costs a goroutine for each context that is made of it.
func TestContextsThatAreMadeOfOneCostNoGoroutine(t *testing.T) {
	ctx := newContext(context.Background())
	before := runtime.NumGoroutine()
	var made []context.Context
	for i := 0; i < 100; i++ {
		type key struct{}
		one, cancel := context.WithCancel(context.WithValue(ctx, key{}, i))
		defer cancel()
		made = append(made, one)
	}
	if after := runtime.NumGoroutine(); after > before+10 {
		t.Errorf("%d goroutines, before %d", after, before)
	}
	ctx.cancel()
	for _, one := range made {
		if <-one.Done(); !errors.Is(one.Err(), context.Canceled) {
			t.Error(one.Err())
		}
	}
}

func TestPrintingAContextDoesNotLookInside(t *testing.T) {
	ctx := newContext(context.Background())
	if text := fmt.Sprint(context.WithValue(ctx, http.ServerContextKey, 1)); !strings.Contains(text, "maitred.request") {
		t.Error(text)
	}
}

func TestTheContextIsOverWhenTheHandlerHasReturned(t *testing.T) {
	kept := make(chan context.Context, 1)
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept <- r.Context() }))
	s.exchange(ask{target: "/", flags: flagKeep})
	if ctx := <-kept; ctx.Err() != context.Canceled {
		t.Error(ctx.Err())
	}
}
