/*
 * fuzz_message.c - what an agent says of itself, of modules and of rates, on
 * any bytes.  The first byte says which message it is to be.  Whatever is
 * taken has to be bounded: the rest of kprofd counts on that.
 */
#include <string.h>

#include "base/utf8.h"
#include "kprofd/trace.h"
#include "agent/agent_msg.h"
#include "fuzz.h"

static const char conf_text[] =
    "{tiers, [{web, {a, f, 1}, [exact]}, {db, [{b, g, '_'}, {c, '_', '_'}]}]}.\n"
    "{entry, [{{a, f, 1}, [{nodes, ['x*']}]}, {b, g, 2}]}.\n";

static struct kp_conf *conf;

static bool
is_time(int64_t t)
{
	return t < KP_TARGET_TIME_MAX && t > -KP_TARGET_TIME_MAX;
}

static void
hello(struct kp_term *r)
{
	struct dist_ids ids = { 0 };
	struct agent_hello h;
	size_t len;

	kp_buf_init(&ids.peer, 1024);
	if (msg_read_hello(r, &ids, &h) == KP_OK) {
		REQUIRE(ids.peer.len > 12);
		REQUIRE(h.otp > 0 && is_time(h.time_offset));
		REQUIRE(utf8_valid(h.node, strlen(h.node)));
		for (size_t i = 0; h.node[i] != '\0'; i += len)
			REQUIRE(!utf8_unsafe(utf8_next(h.node + i,
			    strlen(h.node) - i, &len)));
	}
	kp_buf_free(&ids.peer);
}

static void
status(struct kp_term *r)
{
	struct agent_status st;
	struct kp_span name;
	char reason[200];

	if (msg_read_status(r, &st, &name, reason, sizeof(reason)) != KP_OK)
		return;
	REQUIRE(is_time(st.now) && is_time(st.time_offset));
	REQUIRE(st.busy >= 0 && is_time(st.busy));
	REQUIRE((st.seq | st.queue | st.memory | st.sent | st.dropped |
	    st.dropped_entries | st.entry_calls | st.unarmed_calls |
	    st.tier_calls) <=
	    2 * (uint64_t)KP_TARGET_COUNT_MAX);
	REQUIRE(strlen(reason) < sizeof(reason));
}

/* The plan of the first answer, and the rates of the rest of the bytes. */
static void
plan(struct kp_term *r)
{
	struct kp_diags diags;
	struct kp_plan p;

	if (kp_plan_make(&p, conf, "x@h", false, r, &diags) == KP_OK) {
		REQUIRE(p.n <= KP_PLAN_MAX + 2);
		kp_diags_free(&diags);
		msg_read_rates(r, &p);
		kp_plan_judge(&p, &diags);
	}
	for (size_t i = 0; i < diags.n; i++)
		REQUIRE(diags.v[i].text[0] != '\0');
	kp_diags_free(&diags);
	kp_plan_free(&p);
}

static void
text(struct kp_term *r)
{
	char t[64];

	msg_text(r, t, sizeof(t));
	REQUIRE(utf8_valid(t, strlen(t)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(struct kp_term *) = { hello, status,
		plan, text };
	struct kp_diags d;
	struct kp_term r;

	if (conf == NULL)
		REQUIRE(kp_conf_parse(&conf, conf_text, strlen(conf_text),
		    &d) == KP_OK);
	if (size == 0)
		return 0;
	kp_term_begin_raw(&r, data + 1, size - 1);
	readers[data[0] % 4](&r);
	return 0;
}
