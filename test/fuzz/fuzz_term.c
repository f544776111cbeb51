/*
 * fuzz_term.c - the term reader on any bytes.
 *
 * A walk with the typed readers has to agree with kp_term_skip() on every
 * term, and what is printed has to stay bounded and printable.  As a traceparent
 * they are valid or not: what is made of valid ones is read as it is.
 */
#include <string.h>

#include "kprofd/request.h"
#include "kprofd/term.h"
#include "fuzz.h"

static void
try_or_skip(struct kp_term *r, enum kp_term_kind kind)
{
	struct kp_term start = *r;

	if (kind == KP_TERM_INT)
		kp_term_int(r);
	else if (kind == KP_TERM_FLOAT)
		kp_term_float(r);
	else
		kp_term_binary(r);
	if (r->err != KP_OK) {
		*r = start;
		kp_term_skip(r);
	}
}

/* Reads one term, or a container's head; returns how many terms follow. */
static uint64_t
read_one(struct kp_term *r)
{
	static uint8_t buf[UINT16_MAX];
	enum kp_term_kind kind = kp_term_peek(r);

	switch (kind) {
	case KP_TERM_INT:
	case KP_TERM_FLOAT:
	case KP_TERM_BINARY:
		try_or_skip(r, kind);
		return 0;
	case KP_TERM_ATOM:
		kp_term_atom(r);
		return 0;
	case KP_TERM_TUPLE:
		return kp_term_tuple(r);
	case KP_TERM_LIST:
		if (r->p[0] == 107) {
			kp_term_string(r, buf, sizeof(buf));
			return 0;
		}
		return (uint64_t)kp_term_list(r) + 1;
	case KP_TERM_MAP:
		return (uint64_t)kp_term_map(r) * 2;
	case KP_TERM_PID:
		kp_term_pid(r);
		return 0;
	default:
		kp_term_skip(r);
		return 0;
	}
}

static void
print(const uint8_t *data, size_t size, size_t max)
{
	struct kp_buf out;
	struct kp_term r;

	kp_buf_init(&out, 1 << 20);
	kp_term_begin(&r, data, size);
	kp_term_print(&r, &out, max);
	REQUIRE(out.err == KP_OK && out.len <= max);
	REQUIRE(r.err == KP_OK || out.len == 0);
	for (size_t i = 0; i < out.len; i++)
		REQUIRE(out.p[i] >= 0x20 && out.p[i] != 0x7f);
	kp_buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char parent[KP_TRACEPARENT], again[KP_TRACEPARENT];
	struct kp_term skip, walk;
	uint64_t todo = 1;

	kp_term_begin(&skip, data, size);
	kp_term_skip(&skip);
	REQUIRE(skip.p <= data + size);
	kp_term_begin(&walk, data, size);
	while (todo > 0 && walk.err == KP_OK)
		todo += read_one(&walk) - 1;
	/* the walk counts no levels */
	if (skip.err != KP_ELIMIT) {
		REQUIRE((skip.err == KP_OK) == (walk.err == KP_OK));
		REQUIRE(skip.p == walk.p);
	}
	print(data, size, 1 << 19);
	print(data, size, size % 64);
	if (kp_traceparent_parse(parent, data, size))
		REQUIRE(strlen(parent) == 55 && memcmp(parent, "00-", 3) == 0 &&
		    kp_traceparent_parse(again, parent, 55) &&
		    strcmp(parent, again) == 0);
	else
		REQUIRE(parent[0] == '\0');
	return 0;
}
