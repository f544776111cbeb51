/*
 * metrics.c - writes the process's own figures, the daemon's health and the
 * totals, in the form that the Accept header asks for.
 */
#include <stdio.h>
#include <unistd.h>
#include <sys/resource.h>

#include "families.h"
#include "health.h"
#include "metrics.h"

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
single(struct prom *x, const struct metric *m, const char *value, double v)
{
	prom_family(x, m);
	prom_number(x, &value, v);
}

static void
process(struct prom *x, bool answers)
{
	static const struct metric build = { "kprof_build_info", METRIC_GAUGE,
		"Which kprofd this is.", { "version" } };
	static const struct metric up = { "kprof_daemon_up", METRIC_GAUGE,
		"1 where the daemon's own loop has answered.", { NULL } };
	static const struct metric cpu = { "process_cpu_seconds",
		METRIC_COUNTER, "CPU time of this process.", { NULL } };
	static const struct metric memory = { "process_resident_memory_bytes",
		METRIC_GAUGE, "Memory of this process.", { NULL } };
	struct rusage ru;

	single(x, &build, KP_VERSION, 1);
	single(x, &up, NULL, answers);
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		single(x, &cpu, NULL, seconds(&ru.ru_utime) +
		    seconds(&ru.ru_stime));
	single(x, &memory, NULL, resident());
}

void
metrics_answer(struct totals *t, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type)
{
	enum prom_format f = prom_choose(accept);
	struct prom x;

	*type = prom_content_type(f);
	prom_begin(&x, b, f);
	process(&x, health != NULL);
	if (health != NULL)
		health_write(&x, health, n);
	totals_lock(t);
	families_write(&x, t);
	totals_unlock(t);
	prom_end(&x);
}
