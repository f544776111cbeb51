/*
 * cmd_clear_tokens.c - kprof clear-tokens: removes all sequential trace tokens
 * of a node, through the daemon or, with -target, without one.
 */
#include <stdio.h>

#include "client.h"
#include "conn/sync.h"
#include "kprofd/etf.h"
#include "conn/reach/opt_node.h"
#include "agent/agent_msg.h"

#define LIMIT (10 * KP_NS_PER_S)

static enum kp_err
send_reset(struct dist_sync *t)
{
	struct kp_buf msg;
	enum kp_err e;

	kp_buf_init(&msg, 4096);
	rex_begin(&msg, dist_sync_ids(t), "seq_trace", "reset_trace");
	kp_etf_nil(&msg);
	rex_end(&msg);
	e = dist_sync_rex(t, &msg);
	kp_buf_free(&msg);
	return e;
}

/* Reads {rex, Answer}.  KP_EFORMAT: an error; KP_END: another message. */
static enum kp_err
read_answer(struct kp_term *r, char *why, size_t n)
{
	struct kp_term at;

	kp_term_tuple_n(r, 2);
	if (!kp_span_is(kp_term_atom(r), "rex"))
		return KP_END;
	at = *r;
	if (kp_term_peek(&at) != KP_TERM_TUPLE || kp_term_tuple(&at) != 2 ||
	    !kp_span_is(kp_term_atom(&at), "badrpc"))
		return KP_OK;
	msg_text(r, why, n);
	return KP_EFORMAT;
}

static enum kp_err
await_answer(struct dist_sync *t, kp_mono_ns deadline, char *why, size_t n)
{
	struct kp_term r;
	enum kp_err e;

	do {
		e = dist_sync_next(t, deadline, &r);
		if (e == KP_ETIMEOUT)
			snprintf(why, n, "no answer from the node");
		else if (e == KP_EIO)
			snprintf(why, n, "the node closed the connection");
		else if (e == KP_OK)
			e = read_answer(&r, why, n);
	} while (e == KP_END);
	return e;
}

/*
 * Connects to the node as a hidden node and calls seq_trace:reset_trace() there,
 * which removes every sequential trace token, other tools' too, and stops the
 * node meanwhile.  On error `why` is one line for the user.
 */
static enum kp_err
clear_tokens(const char *target, const struct reach *reach, char *why,
    size_t n)
{
	struct dist_sync_opts o = { .target = target, .reach = reach,
		.wake = -1 };
	struct dist_sync *t;
	enum kp_err e = dist_sync_open(&t, &o, why, n);

	if (e != KP_OK)
		return e;
	if (dist_sync_doubt(t) != NULL)
		say("'%s': unverified: %s", target, dist_sync_doubt(t));
	snprintf(why, n, "cannot ask '%s'", target);
	e = send_reset(t);
	if (e == KP_OK)
		e = await_answer(t, kp_mono_now() + LIMIT, why, n);
	dist_sync_close(t);
	return e;
}

static int
clear_on(const char *target, const struct reach *reach)
{
	char why[1024] = "";

	if (clear_tokens(target, reach, why, sizeof(why)) != KP_OK) {
		say("%s", why);
		return EXIT_FAILED;
	}
	printf("tokens cleared on %s\n", target);
	return EXIT_DONE;
}

int
cmd_clear_tokens(const struct cmd *cmd, int argc, char **argv)
{
	const char *target = NULL, *node = NULL;
	struct reach reach = { .name = NULL };
	struct place p = { .control = NULL };
	const struct opt opts[] = {
		OPT_DB_ONE(p),
		OPT_CONTROL(p),
		OPT_NODE(node),
		{ "target", "NODE", "do it right on this node, without a "
		    "daemon", opt_node, &target, NULL },
		OPT_GROUP("With -target, the connection to the node"),
		REACH_OPTIONS(reach),
	};
	struct kp_buf answer;
	char why[1024], line[CTL_LINE_MAX];
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (target != NULL && node != NULL)
		return opts_wrong(cmd, "-node goes with a daemon, -target "
		    "without one: choose one");
	if (target == NULL && reach_given(&reach) != NULL)
		return opts_wrong(cmd, "-%s goes with -target NODE",
		    reach_given(&reach));
	if (target != NULL && !reach_finish(&reach, why, sizeof(why)))
		return opts_wrong(cmd, "%s", why);
	if (target != NULL)
		return clear_on(target, &reach);
	if (!daemon_line(line, cmd->name, node))
		return EXIT_USAGE;
	if (p.dbs.n > 1)
		return opts_wrong(cmd, "give one -db: one daemon is asked");
	kp_buf_init(&answer, OUTPUT_MAX);
	if (daemon_ask(&p, line, 0, &answer, why, sizeof(why)) == KP_OK)
		return show(&answer);
	say("%s; -target NODE does it without a daemon", why);
	kp_buf_free(&answer);
	return EXIT_FAILED;
}
