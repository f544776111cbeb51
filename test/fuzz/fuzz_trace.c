/*
 * fuzz_trace.c - the trace decoder on any bytes: every span of every event is
 * a whole term of the kind promised, inside the input.
 */
#include "kprofd/trace.h"
#include "fuzz.h"

static const uint8_t *begin, *end;

static void
check_inside(struct kp_span s)
{
	REQUIRE(s.n == 0 || (s.p >= begin && s.n <= (size_t)(end - s.p)));
}

static void
check_mfa(struct kp_span s, bool may_be_empty)
{
	struct kp_term r;

	check_inside(s);
	if (s.n == 0) {
		REQUIRE(may_be_empty);
		return;
	}
	kp_term_begin_raw(&r, s.p, s.n);
	kp_term_tuple_n(&r, 3);
	kp_term_atom(&r);
	kp_term_atom(&r);
	REQUIRE((uint64_t)kp_term_int(&r) <= 255);
	REQUIRE(kp_term_finish(&r) == KP_OK);
}

static void
check_event(const struct kp_event *ev)
{
	bool call = ev->kind == KP_EV_CALL || ev->kind == KP_EV_ENTRY ||
	    ev->kind == KP_EV_CLEAR;
	struct kp_term r;

	check_inside(ev->pid.node);
	check_inside(ev->from.node);
	check_mfa(ev->mfa, ev->kind == KP_EV_RETURN_TO ||
	    ev->kind >= KP_EV_IN);
	REQUIRE(ev->kind < KP_EV_IN || ev->mfa.n == 0);
	check_mfa(ev->caller, true);
	check_inside(ev->identity);
	if (ev->identity.n > 0) {
		kp_term_begin_raw(&r, ev->identity.p, ev->identity.n);
		kp_term_skip(&r);
		REQUIRE(kp_term_finish(&r) == KP_OK);
	}
	REQUIRE(ev->label >> 59 == 0 && ev->old_label >> 59 == 0);
	REQUIRE((ev->weight > 0) == (ev->kind == KP_EV_ENTRY));
	REQUIRE(call || (ev->label == 0 && ev->caller.n == 0 && !ev->has_from));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_batch b;
	struct kp_event ev;
	enum kp_err err;
	size_t steps = 0;

	begin = data;
	end = data + size;
	if (kp_batch_begin(&b, data, size) != KP_OK)
		return 0;
	while ((err = kp_batch_next(&b, &ev)) == KP_OK || err == KP_ENOENT) {
		REQUIRE(++steps <= size);
		if (err == KP_OK)
			check_event(&ev);
	}
	REQUIRE(kp_batch_next(&b, &ev) == err);
	return 0;
}
