/*
 * calls_feed.h - full traces made by hand: functions are t:a/0 to t:z/0, known
 * by their letter; '?' is undefined.  Times are in us.
 */
#ifndef TEST_CALLS_FEED_H
#define TEST_CALLS_FEED_H

#include <stdlib.h>
#include <string.h>

#include "calls/trace_file.h"
#include "calls/call_sum.h"

#define FEED_MAX 4096

struct calls_feed {
	struct kp_call_names *names;
	struct kp_call_event v[FEED_MAX];
	size_t n;
};

static inline struct kp_span
feed_span(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

static inline uint32_t
feed_fn(struct calls_feed *f, char c)
{
	char name[2] = { c, '\0' };
	uint32_t fn = KP_FN_UNDEFINED;
	bool added;

	switch (c) {
	case '?':
		return KP_FN_UNDEFINED;
	case 'S':
		return KP_FN_SUSPEND;
	case 'G':
		return KP_FN_GC;
	default:
		kp_call_fn_put(f->names, feed_span("t"), feed_span(name), 0,
		    &fn, &added);
		return fn;
	}
}

/* Process 0 is <0.100.0>, and so on. */
static inline uint32_t
feed_proc(struct calls_feed *f, uint32_t n)
{
	uint32_t proc = 0;
	bool added;

	for (uint32_t i = f->names->nprocs; i <= n; i++)
		kp_call_proc_put(f->names, 0, 100 + i, 0, &proc, &added);
	return n;
}

static inline void
feed_put(struct calls_feed *f, enum kp_call_kind kind, uint32_t proc,
    int64_t us, uint32_t fn, uint32_t other)
{
	if (f->n == FEED_MAX)
		abort();
	f->v[f->n++] = (struct kp_call_event){ .kind = kind,
		.proc = feed_proc(f, proc), .ts = us * KP_NS_PER_US,
		.fn = fn, .other = other };
}

static inline void
feed_call(struct calls_feed *f, uint32_t proc, int64_t us, char fn,
    char caller)
{
	feed_put(f, KP_CALL_CALL, proc, us, feed_fn(f, fn),
	    feed_fn(f, caller));
}

static inline void
feed_at(struct calls_feed *f, enum kp_call_kind kind, uint32_t proc,
    int64_t us, char fn)
{
	feed_put(f, kind, proc, us, feed_fn(f, fn), 0);
}

static inline void
feed_spawn(struct calls_feed *f, uint32_t proc, int64_t us, uint32_t child,
    char fn)
{
	feed_put(f, KP_CALL_SPAWN, proc, us, feed_fn(f, fn),
	    feed_proc(f, child));
}

/* NULL when it failed. */
static inline struct kp_calls_sum *
feed_sum(const struct calls_feed *f, const struct kp_calls_opts *o)
{
	struct kp_calls_sum *s = kp_calls_sum_new(o);

	for (size_t i = 0; s != NULL && i < f->n; i++)
		if (kp_calls_sum_add(s, &f->v[i]) != KP_OK)
			return NULL;
	if (s != NULL && kp_calls_sum_end(s) != KP_OK)
		return NULL;
	return s;
}

#endif
