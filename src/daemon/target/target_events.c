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
#include "daemon/target/target.h"
#include "daemon/target/target_events.h"
#include "text/text.h"

/*
 * Some of the text is the target's own.  A name that has never answered is no
 * node's: it stands in the text.
 */
void
target_happened(struct target *t, const char *kind, const char *text)
{
	bool known = t->hello.otp != 0;
	struct kp_happening h = { .at = kp_wall_now(),
		.node = known ? t->node : "", .kind = kind };
	struct kp_buf b;
	const char *clean;

	if (t->p.store == NULL)
		return;
	kp_buf_init(&b, 16 * sizeof(h.text));
	if (!known && strstr(text, t->node) == NULL)
		kp_buf_printf(&b, "'%s'%s", t->node,
		    text[0] != '\0' ? ": " : "");
	text_put_n(&b, text, strnlen(text, sizeof(h.text)));
	clean = kp_buf_cstr(&b);
	memcpy(h.text, clean, utf8_fit(clean, b.len, sizeof(h.text) - 1));
	kp_buf_free(&b);
	kp_store_happening(t->p.store, &h);
}

/* What happens on nodes that load code when it is first called is no warning. */
void
target_tell(struct target *t, const char *kind, const char *text)
{
	if (!rate_limit_may(&t->hush, kp_mono_now()))
		return;
	if (strcmp(kind, "modules") == 0)
		log_info(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	else
		log_warn(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	target_happened(t, kind, text);
}

void
target_tell_untold(struct target *t)
{
	uint64_t n = rate_limit_take(&t->hush);
	char text[100];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "%" PRIu64 " notices were not logged: too "
	    "many at once", n);
	log_warn("hushed", t->node, "'%s': %s", t->node, text);
	target_happened(t, "hushed", text);
}

/* ---- what kp_requests finds ---- */

void
target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	struct target *t = assembly_target(ctx, node);
	char name[FN_NAME_MAX], text[512];

	snprintf(text, sizeof(text), "%.200s never returns, as far as is seen: "
	    "no longer traced (if it is a server's loop, name the function "
	    "that it calls for each request; if exceptions end it, mark it "
	    "exact or use -probe native)", fn_shown(name, sizeof(name), fn->text));
	target_tell(t, "runaway", text);
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
	target_tell(t, "identity", text);
}

void
target_on_crossed(void *ctx, uint32_t node, uint64_t proc,
    const struct kp_fn *fn)
{
	struct target *t = assembly_target(ctx, node);
	char pid[32];

	snprintf(t->crossed, sizeof(t->crossed), "process %s handles requests "
	    "while it carries the tokens of others (it takes messages ahead, or "
	    "answers later): request types of tier %s are estimated there, not "
	    "known; its sums are right (%s)", kp_proc_text(proc, pid,
	    sizeof(pid)), assembly_tier(t->part.in->conf, fn), fn->text);
	target_tell(t, "drains", t->crossed);
}
