/* metrics.c - see the header. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>

#include "families.h"
#include "health.h"
#include "metrics.h"
#include "store/feed.h"

#define LOOK_S 5	/* windows are rolled up a good deal later */
#define QUERY_MAX (5 * KP_NS_PER_S)

struct metrics {
	const char *db;
	struct event *timer;
	struct kp_feed feed;
	struct totals *totals;
	uint64_t failed;	/* looks at the database */
};

static void
on_window(void *ctx, const struct kp_window *w)
{
	totals_add(ctx, w);
}

/* What cannot be read now is there the next time. */
static void
follow(struct metrics *m)
{
	struct kp_query *q;
	char *why;

	if (kp_query_open(&q, m->db, &why) != KP_OK) {
		free(why);
		m->failed++;
		return;
	}
	kp_query_deadline(q, kp_mono_now() + QUERY_MAX);
	if (kp_feed_windows(q, &m->feed, on_window, m->totals) != KP_OK)
		m->failed++;
	kp_query_close(q);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	follow(ctx);
}

struct metrics *
metrics_new(struct event_base *base, const char *db)
{
	const struct timeval look = { LOOK_S, 0 };
	struct metrics *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->db = db;
	m->totals = totals_new();
	m->timer = event_new(base, -1, EV_PERSIST, on_timer, m);
	if (m->totals == NULL || m->timer == NULL ||
	    event_add(m->timer, &look) != 0) {
		metrics_free(m);
		return NULL;
	}
	return m;
}

void
metrics_free(struct metrics *m)
{
	if (m == NULL)
		return;
	if (m->timer != NULL)
		event_free(m->timer);
	totals_free(m->totals);
	free(m);
}

/* ---- the process ---- */

static double
seconds(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

/* 0: not known. */
static double
resident(void)
{
	unsigned long size, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f != NULL && fscanf(f, "%lu %lu", &size, &rss) != 2)
		rss = 0;
	if (f != NULL)
		fclose(f);
	return (double)rss * (double)sysconf(_SC_PAGESIZE);
}

/* Of no label but at most one. */
static void
single(struct expo *x, const struct metric *m, const char *value, double v)
{
	expo_family(x, m);
	expo_number(x, &value, v);
}

static void
process(struct expo *x, const struct metrics *m, bool answers)
{
	static const struct metric build = { "kprof_build_info", METRIC_GAUGE,
		"Which kprofd this is.", { "version" } };
	static const struct metric up = { "kprof_daemon_up", METRIC_GAUGE,
		"1 where the daemon's own loop has answered.", { NULL } };
	static const struct metric failed = { "kprof_export_failures",
		METRIC_COUNTER, "Looks at the database that failed; what "
		"they missed comes with the next one.", { NULL } };
	static const struct metric cpu = { "process_cpu_seconds",
		METRIC_COUNTER, "CPU time of this process.", { NULL } };
	static const struct metric memory = { "process_resident_memory_bytes",
		METRIC_GAUGE, "Memory of this process.", { NULL } };
	struct rusage ru;

	single(x, &build, KP_VERSION, 1);
	single(x, &up, NULL, answers);
	single(x, &failed, NULL, (double)m->failed);
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		single(x, &cpu, NULL, seconds(&ru.ru_utime) +
		    seconds(&ru.ru_stime));
	single(x, &memory, NULL, resident());
}

void
metrics_answer(struct metrics *m, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type)
{
	enum expo_format f = expo_choose(accept);
	struct expo x;

	follow(m);
	*type = expo_content_type(f);
	expo_begin(&x, b, f);
	process(&x, m, health != NULL);
	if (health != NULL)
		health_write(&x, health, n);
	families_write(&x, m->totals);
	expo_end(&x);
}
