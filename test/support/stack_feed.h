/* stack_feed.h - writes a sampler's messages (kprofd/stacks.h) for tests. */
#ifndef KPROFD_TEST_STACK_FEED_H
#define KPROFD_TEST_STACK_FEED_H

#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/stacks.h"

/*
 * frames: "mod:fun/arity:line" joined by spaces, innermost first; NULL: not
 * seen.
 */
struct fed_sample {
	uint32_t id, serial;
	int64_t label, at, took, time;
	const char *status, *frames;
	int64_t group;
};

static inline void
feed_frame(struct kp_buf *b, const char *p, size_t n)
{
	const char *colon = memchr(p, ':', n), *slash = memchr(p, '/', n);
	const char *line = memchr(slash, ':', (size_t)(p + n - slash));

	kp_etf_tuple(b, 4);
	kp_etf_atom_n(b, p, (size_t)(colon - p));
	kp_etf_atom_n(b, colon + 1, (size_t)(slash - colon - 1));
	kp_etf_int(b, strtol(slash + 1, NULL, 10));
	kp_etf_int(b, line != NULL ? strtol(line + 1, NULL, 10) : 0);
}

static inline void
feed_frames(struct kp_buf *b, const char *frames)
{
	uint32_t n = *frames != '\0';
	size_t len;

	for (const char *p = frames; *p != '\0'; p++)
		n += *p == ' ';
	if (n > 0)
		kp_etf_list(b, n);
	for (const char *p = frames; *p != '\0'; p += len + (p[len] != '\0')) {
		len = strcspn(p, " ");
		feed_frame(b, p, len);
	}
	kp_etf_nil(b);
}

static inline void
feed_sample(struct kp_buf *b, const struct fed_sample *s)
{
	kp_etf_tuple(b, 8);
	kp_etf_pid(b, "app@host", s->id, s->serial, 1);
	kp_etf_int(b, s->label);
	kp_etf_int(b, s->at);
	kp_etf_int(b, s->took);
	kp_etf_int(b, s->time);
	kp_etf_atom(b, s->status);
	if (s->frames != NULL)
		feed_frames(b, s->frames);
	else
		kp_etf_atom(b, "not_seen");
	kp_etf_int(b, s->group);
}

static inline void
feed_samples(struct kp_buf *b, int64_t sent_at,
    const struct kp_stack_counts *c, const struct fed_sample *v, uint32_t n)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "kprof_stacks");
	kp_etf_int(b, sent_at);
	kp_etf_tuple(b, c->crowded + c->late > 0 ? 8 : 6);
	kp_etf_int(b, (int64_t)c->ticks);
	kp_etf_int(b, (int64_t)c->looked);
	kp_etf_int(b, (int64_t)c->taken);
	kp_etf_int(b, (int64_t)c->not_seen);
	kp_etf_int(b, (int64_t)c->unsent);
	kp_etf_int(b, c->busy);
	if (c->crowded + c->late > 0) {
		kp_etf_int(b, (int64_t)c->crowded);
		kp_etf_int(b, (int64_t)c->late);
	}
	if (n > 0)
		kp_etf_list(b, n);
	for (uint32_t i = 0; i < n; i++)
		feed_sample(b, &v[i]);
	kp_etf_nil(b);
}

#endif
