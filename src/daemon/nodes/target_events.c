/*
 * target_events.c - logs and stores an event, unless its target has reported
 * too many; those are counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "kprofd/fn_name.h"
#include "daemon/log.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/target_events.h"
#include "conn/channel.h"
#include "text/text.h"

/*
 * The name of a target that was never attached may not be a node's: it goes into
 * the text.
 */
void
target_record(struct target *t, const char *kind, const char *text)
{
	bool known = t->hello.otp != 0;
	struct kp_happening h = { .at = kp_wall_now(),
		.node = known ? t->node : "", .kind = kind };
	struct kp_buf b;
	const char *clean;

	if (t->p->store == NULL)
		return;
	kp_buf_init(&b, 16 * sizeof(h.text));
	if (!known && strstr(text, t->node) == NULL)
		kp_buf_printf(&b, "'%s'%s", t->node,
		    text[0] != '\0' ? ": " : "");
	text_put_n(&b, text, strnlen(text, sizeof(h.text)));
	clean = kp_buf_cstr(&b);
	memcpy(h.text, clean, utf8_fit(clean, b.len, sizeof(h.text) - 1));
	kp_buf_free(&b);
	kp_store_happening(t->p->store, &h);
}

/*
 * "trip", "rest": whole sentences.  "modules": nodes that load code on demand do
 * that all the time, so no warning.
 */
void
target_report(struct target *t, const char *kind, const char *text)
{
	if (!rate_limit_may(&t->rate_limit, kp_mono_now()))
		return;
	if (strcmp(kind, "trip") == 0 || strcmp(kind, "rest") == 0)
		log_warn(kind, t->node, "%s: %s", t->node, text);
	else if (strcmp(kind, "modules") == 0)
		log_info(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	else
		log_warn(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	target_record(t, kind, text);
}

void
target_report_suppressed(struct target *t)
{
	uint64_t n = rate_limit_take(&t->rate_limit);
	char text[100], count[TEXT_MAX];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "not logged: %s, too many at once",
	    text_counted(count, n, "notice"));
	log_warn("hushed", t->node, "'%s': %s", t->node, text);
	target_record(t, "hushed", text);
}

/*
 * Who may answer in its place depends on the files of each connection.  A check's
 * warnings are about tiers.conf.
 */
void
target_report_doubt(struct target *t)
{
	const struct channel *c = agent_channel(t->agent);
	const char *doubt = c != NULL ? channel_doubt(c) : NULL;

	if (doubt != NULL && doubt != t->doubt && t->check == NULL)
		log_warn("unverified", t->node, "'%s': unverified: %s", t->node,
		    doubt);
	t->doubt = doubt;
}

/* ---- what kp_requests finds ---- */

void
target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	struct target *t = assembly_target(ctx, node);
	char name[FN_NAME_MAX], text[512];

	snprintf(text, sizeof(text), "%.200s never returns, as far as is seen: "
	    "no longer traced (if it is a server's loop, name the function "
	    "that it calls for each request%s)",
	    fn_shown(name, sizeof(name), fn->text), t->native ? "" :
	    "; if exceptions end it, mark it exact or use -probe native");
	target_report(t, "runaway", text);
	agent_disarm(t->agent, fn->text);
}

void
target_on_unbounded(void *ctx, uint32_t node, uint32_t line)
{
	struct target *t = assembly_target(ctx, node);
	char text[200];

	snprintf(text, sizeof(text), "requests are named _other by the clause "
	    "on line %" PRIu32 " of tiers.conf: its answer is longer than %d "
	    "bytes, or nothing to name them by", line, KP_IDENT_BYTES_MAX);
	target_report(t, "identity", text);
}
