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

/* The agent's owner; it defines what agent.h ends with. */
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

void
target_on_state(struct target *rec, enum agent_state s, const char *text)
{
	if (s == AGENT_ARMED) {
		say("recording");
	} else if (s == AGENT_LOST || s == AGENT_TRIPPED) {
		/* Not what a program is recorded for. */
		say("%s: %s", agent_state_name(s), text);
		recorder_end(rec, 1);
	}
}

void
target_on_hello(struct target *rec, const struct agent_hello *h)
{
	if (rec->out == NULL)
		return;
	fprintf(rec->out, "recording 1\notp %d\ntiers %zu\n", h->otp,
	    rec->tiers_len);
	fwrite(rec->tiers, 1, rec->tiers_len, rec->out);
	fputc('\n', rec->out);
}

void
target_on_batch(struct target *rec, const uint8_t *p, size_t n)
{
	if (rec->out == NULL) {
		ages_batch(&rec->ages, p, n, kp_mono_now());
		return;
	}
	fprintf(rec->out, "batch %zu\n", n);
	fwrite(p, 1, n, rec->out);
	fputc('\n', rec->out);
}

void
target_on_clock(struct target *rec, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received)
{
	if (rec->out == NULL)
		ages_clock(&rec->ages, sent, there, received);
}

void
target_on_status(struct target *rec, const struct agent_status *st, bool last)
{
	if (rec->out != NULL)
		fprintf(rec->out, "status %" PRId64 "\n", st->now);
	if (last && (st->dropped > 0 || st->unarmed_calls > 0))
		say("%" PRIu64 " events dropped, %" PRIu64
		    " requests not seen", st->dropped, st->unarmed_calls);
}

void
target_on_probe(struct target *rec, bool native, const char *why)
{
	(void)rec, (void)native, (void)why;
}

void
target_on_replanned(struct target *rec)
{
	(void)rec;
}

void
target_on_plan(struct target *rec, const struct kp_plan *plan)
{
	(void)rec, (void)plan;
}

void
target_report(struct target *rec, const char *kind, const char *text)
{
	(void)rec;
	say("%s: %s", kind, text);
}

void
target_on_diags(struct target *rec, const struct kp_diags *diags)
{
	(void)rec;
	for (size_t i = 0; i < diags->n; i++)
		say("%s", diags->v[i].text);
}

void
target_on_failed(struct target *rec, enum agent_failure f, const char *why)
{
	(void)f;
	say("%s", why);
	recorder_end(rec, 1);
}

void
target_on_stopped(struct target *rec)
{
	recorder_end(rec, 0);
}

static void
on_sigterm(evutil_socket_t sig, short what, void *ctx)
{
	struct target *rec = ctx;

	(void)sig, (void)what;
	agent_stop(rec->agent);
}

bool
target_on_unreached(struct target *rec)
{
	(void)rec;
	return false;
}

enum agent_verdict
target_on_missing(struct target *rec, const struct kp_diags *diags)
{
	(void)rec;
	return diags->errors > 0 ? AGENT_REFUSE : AGENT_GO_ON;
}

/* What a recording does not need. */
void
target_on_stacks(struct target *rec, struct kp_span message)
{
	(void)rec, (void)message;
}

void
target_on_messages(struct target *rec, bool timed, const char *why)
{
	(void)rec, (void)timed, (void)why;
}

void
target_on_taken(struct target *rec, kp_dur_ns gap, const char *text)
{
	(void)gap;
	target_report(rec, "taken", text);
}

void
target_on_connected(struct target *rec, const char *node)
{
	(void)rec, (void)node;
}

void
target_on_calls(struct target *rec, uint64_t entries, const uint64_t *tiers)
{
	(void)rec, (void)entries, (void)tiers;
}

kp_dur_ns
target_on_trip(struct target *rec, const char *text, const struct kp_trip_limit *limit)
{
	(void)limit;
	target_report(rec, "trip", text);
	return KP_NS_PER_S;
}

kp_dur_ns
target_pause_over(struct target *rec)
{
	(void)rec;
	return 0;
}

void
target_on_reloaded(struct target *rec, const struct agent_reloaded *r)
{
	(void)rec, (void)r;
}

static int
record(struct target *rec, const struct agent_opts *ao)
{
	struct event *sigterm;

	if (evthread_use_pthreads() != 0 ||
	    (rec->base = event_base_new()) == NULL)
		return 1;
	sigterm = evsignal_new(rec->base, SIGTERM, on_sigterm, rec);
	rec->agent = agent_new(rec->base, ao, rec);
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
