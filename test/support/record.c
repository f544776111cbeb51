/*
 * record.c - writes down what a target's agent sends, as it comes: half of a
 * recording; test/recordings/README.md has the format.
 *
 *   record NODE TIERS.CONF COOKIE-FILE OUT
 *   record -ages NODE TIERS.CONF COOKIE-FILE relay|LIBRARY
 *
 * It attaches with the daemon's own code (src/agent), and keeps each
 * {kprof_events, ...} unread.  It says "recording" on standard error when the
 * target is armed, and ends well, with all that was under way, on SIGTERM.  With
 * -ages it prints at the end how old events were when they came, by the relay or
 * by the native probe.
 */
#include <event2/thread.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/ages.h"
#include "config/tiers_file.h"
#include "agent/agent.h"

#define CONNECT_LIMIT (10 * KP_NS_PER_S)

/* The agent's owner. */
struct target {
	struct event_base *base;
	struct agent *agent;
	char *tiers;
	size_t tiers_len;
	FILE *out;		/* NULL: their ages are looked at */
	struct ages ages;
	int status;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
say(const char *fmt, ...)
{
	va_list ap;

	fputs("record: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void
recorder_end(struct target *rec, int status)
{
	rec->status = status;
	event_base_loopbreak(rec->base);
}

static void
on_hello(struct target *rec, const struct agent_hello *h)
{
	fprintf(rec->out, "recording 1\notp %d\ntiers %zu\n", h->otp,
	    rec->tiers_len);
	fwrite(rec->tiers, 1, rec->tiers_len, rec->out);
	fputc('\n', rec->out);
}

static void
on_batch(struct target *rec, struct kp_span m)
{
	if (rec->out == NULL) {
		ages_batch(&rec->ages, m.p, m.n, kp_mono_now());
		return;
	}
	fprintf(rec->out, "batch %" PRIu32 "\n", m.n);
	fwrite(m.p, 1, m.n, rec->out);
	fputc('\n', rec->out);
}

static void
on_status(struct target *rec, const struct agent_status *st, bool last)
{
	if (rec->out != NULL)
		fprintf(rec->out, "status %" PRId64 "\n", st->now);
	if (last && (st->dropped > 0 || st->unarmed_calls > 0))
		say("%" PRIu64 " events dropped, %" PRIu64
		    " requests not seen", st->dropped, st->unarmed_calls);
}

static void
on_state(struct target *rec, const struct agent_event *e)
{
	if (e->state == AGENT_ARMED) {
		say("recording");
	} else if (e->state == AGENT_LOST || e->state == AGENT_TRIPPED) {
		/* Not what a program is recorded for. */
		say("%s: %s", agent_state_name(e->state), e->text);
		recorder_end(rec, 1);
	} else if (e->state == AGENT_ENDED) {
		if (e->end != AGENT_STOPPED)
			say("%s", e->text);
		recorder_end(rec, e->end != AGENT_STOPPED);
	}
}

/* A recording needs no other kinds. */
static int64_t
on_agent_event(struct target *rec, const struct agent_event *e)
{
	switch (e->kind) {
	case AGENT_ON_STATE:
		on_state(rec, e);
		break;
	case AGENT_ON_HELLO:
		if (rec->out != NULL)
			on_hello(rec, e->hello);
		break;
	case AGENT_ON_BATCH:
		on_batch(rec, e->message);
		break;
	case AGENT_ON_CLOCK:
		if (rec->out == NULL)
			ages_clock(&rec->ages, e->sent, e->there, e->received);
		break;
	case AGENT_ON_STATUS:
		on_status(rec, e->status, e->last);
		break;
	case AGENT_ON_REPORT:
		say("%s: %s", e->word, e->text);
		break;
	case AGENT_ON_DIAGS:
		for (size_t i = 0; i < e->diags->n; i++)
			say("%s", e->diags->v[i].text);
		break;
	case AGENT_ON_MISSING:
		return e->diags->errors > 0 ? AGENT_REFUSE : AGENT_GO_ON;
	case AGENT_ON_TRIP:
		say("trip: %s", e->text);
		return KP_NS_PER_S;
	default:
		break;
	}
	return 0;
}

static void
on_sigterm(evutil_socket_t sig, short what, void *ctx)
{
	struct target *rec = ctx;

	(void)sig, (void)what;
	agent_stop(rec->agent);
}

static int
record(struct target *rec, const struct agent_opts *ao)
{
	struct event *sigterm;

	if (evthread_use_pthreads() != 0 ||
	    (rec->base = event_base_new()) == NULL)
		return 1;
	sigterm = evsignal_new(rec->base, SIGTERM, on_sigterm, rec);
	rec->agent = agent_new(rec->base, ao, on_agent_event, rec);
	if (sigterm != NULL && rec->agent != NULL) {
		agent_start(rec->agent);
		evsignal_add(sigterm, NULL);
		event_base_dispatch(rec->base);
	}
	agent_free(rec->agent);
	if (sigterm != NULL)
		event_free(sigterm);
	event_base_free(rec->base);
	return rec->status;
}

int
main(int argc, char **argv)
{
	struct target rec = { .status = 1 };
	struct label_epochs labels;
	char cookie[NODE_COOKIE_MAX + 1], why[512];
	struct kp_conf *conf;
	struct kp_diags diags;
	bool by_age = argc == 6 && strcmp(argv[1], "-ages") == 0;
	bool native = by_age && strcmp(argv[5], "relay") != 0;
	int status;

	argv += by_age;
	if (argc - by_age != 5) {
		fprintf(stderr,
		    "usage: record NODE TIERS.CONF COOKIE-FILE OUT\n"
		    "       record -ages NODE TIERS.CONF COOKIE-FILE relay|LIBRARY\n");
		return 2;
	}
	if (node_cookie(argv[3], cookie, why, sizeof(why)) != KP_OK ||
	    (rec.tiers = tiers_file_read(argv[2], &rec.tiers_len, why,
	    sizeof(why))) == NULL) {
		say("%s", why);
		return 1;
	}
	if (kp_conf_parse(&conf, rec.tiers, rec.tiers_len, &diags) != KP_OK) {
		say("%s:%u: %s", argv[2], diags.v[0].pos.line,
		    diags.v[0].text);
		return 1;
	}
	kp_diags_free(&diags);
	rec.out = by_age ? NULL : fopen(argv[4], "wb");
	if (by_age ? !ages_init(&rec.ages, argv[1]) : rec.out == NULL) {
		say("cannot open '%s'", argv[4]);
		return 1;
	}
	label_epochs_init(&labels, (uint64_t)kp_wall_now(), kp_wall_now(),
	    kp_mono_now());
	status = record(&rec, &(struct agent_opts){ .target = argv[1],
	    .cookie = cookie, .conf = conf, .conf_path = argv[2],
	    .labels = &labels,
	    .connect_limit = CONNECT_LIMIT,
	    .probe = native ? AGENT_NATIVE : AGENT_RELAY,
	    .probe_library = argv[4] });
	if (by_age)
		ages_print(&rec.ages);
	else if (fclose(rec.out) != 0) {
		say("cannot write '%s'", argv[4]);
		status = 1;
	}
	kp_conf_free(conf);
	free(rec.tiers);
	return status;
}
