/*
 * fuzz_pools.c - what a node says of its supervisors and pools, on any bytes: what
 * is read is within the caps, and all that is said of it is text.  The first byte
 * says which processes were at work.
 */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "suggest/pools.h"

static unsigned reached;	/* answers with an application and a pool */

static bool
is_platform(const void *ctx, const char *app, const char *mod)
{
	(void)ctx;
	return strcmp(app, "kernel") == 0 ||
	    (mod != NULL && strcmp(mod, "kernel") == 0);
}

static void
within_caps(const struct suggest_pools *p)
{
	uint64_t members = 0;

	REQUIRE(p->n <= SUGGEST_POOLS_MAX && p->napps <= SUGGEST_POOL_APPS_MAX);
	for (size_t i = 0; i < p->n; i++) {
		REQUIRE(p->v[i].gone <= p->v[i].members);
		REQUIRE(p->v[i].members <= p->v[i].count);
		members += p->v[i].members;
	}
	REQUIRE(members >= p->members.len);
	REQUIRE(p->members.len <= SUGGEST_POOL_MEMBERS_MAX);
}

static void
said(const struct suggest_pools *p, kp_dur_ns span)
{
	struct kp_buf b;

	kp_buf_init(&b, 1 << 20);
	suggest_pools_about(p, span, is_platform, NULL, &b);
	REQUIRE(b.err != KP_OK || (utf8_valid((const char *)b.p, b.len) &&
	    (b.len == 0 || b.p[b.len - 1] == '\n')));
	kp_buf_free(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct suggest_pools p = { 0 };
	struct kp_term r;
	enum kp_err e;

	if (size == 0)
		return 0;
	kp_term_begin_raw(&r, data + 1, size - 1);
	e = suggest_pools_read(&p, &r);
	if (e == KP_OK) {
		within_caps(&p);
		reached += p.n > 0 && p.napps > 0;
	}
	REQUIRE(p.answered == (e == KP_OK));
	for (uint64_t proc = 0; proc < 64; proc++) {
		if (proc % 8 == (data[0] & 7))
			suggest_pools_input(&p, proc);
		suggest_pools_sample(&p, proc, data[0] >> proc % 8 & 1,
		    data[0] & 128 ? INT64_MAX : KP_NS_PER_MS);
	}
	said(&p, data[0] & 64 ? 0 : KP_NS_PER_S);
	suggest_pools_free(&p);
	return 0;
}

void
fuzz_replayed(void)
{
	REQUIRE(reached > 0);
}
