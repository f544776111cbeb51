/*
 * bench_fleet.c - what one kprofd needs for many nodes that measure every request: CPU time
 * of the loop and of the writer, memory, and what comes into the database.
 *
 *	build/bench/bench_fleet [NODES [SECONDS [RATE [METRICS]]]]
 *
 * Each node has RATE requests a second of ten calls each, of 30 types, for that many
 * seconds of its own time, and a window every ten of these.  METRICS: a file for what
 * Prometheus would get at the end, which bench_fleet.mjs serves as many kprofds would.
 * Without arguments, fleets of 1, 16 and KP_NODES_MAX nodes for a minute, by the relay and
 * by the native probe.  The batches are made in turn and their making is not counted;
 * sockets are not there.
 */
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "export/metrics.h"
#include "export/totals.h"
#include "load.h"
#include "stages.h"
#include "store/store.h"

#define TYPES 30
#define FLIGHT 40		/* requests of a node at once */
#define WINDOW (10 * KP_NS_PER_S)
#define BEGAN (INT64_C(1700000000) * KP_NS_PER_S)

struct fleet {
	uint32_t nodes;
	unsigned seconds, rate;
	bool native;
	struct stages r;
	struct load l[KP_NODES_MAX];
	char names[KP_NODES_MAX][32];
	struct kp_store *store;
	struct totals *totals;
	int64_t loop;		/* CPU time of the stages, ns */
	int64_t making;		/* of the batches */
};

static int64_t
cpu_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * KP_NS_PER_S + ts.tv_nsec;
}

static double
file_mib(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (double)st.st_size / (1 << 20) : 0;
}

static double
resident_mib(void)
{
	long kib = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return (double)kib / 1024;
}

/* On the writer's thread. */
static void
on_written(void *ctx, const struct kp_window *w)
{
	totals_add(ctx, w);
}

static void
open_store(struct fleet *f, const char *path)
{
	const struct kp_store_opts o = { .path = path, .version = "bench",
		.tiers_text = stages_conf, .conf = f->r.conf, .interval = WINDOW,
		.on_written = on_written, .written_ctx = f->totals };
	char *why = NULL;

	if (kp_store_open(&f->store, &o, &why) == KP_OK)
		return;
	fprintf(stderr, "bench_fleet: %s\n", why);
	exit(1);
}

/* A second of one node. */
static void
feed_second(struct fleet *f, uint32_t i, struct kp_buf *b)
{
	uint64_t until = f->l[i].next + (uint64_t)f->rate * LOAD_EVENTS;
	int64_t at;

	node = f->names[i];
	while (f->l[i].next < until) {
		at = cpu_of(CLOCK_THREAD_CPUTIME_ID);
		load_batch(&f->l[i], b);
		f->making += cpu_of(CLOCK_THREAD_CPUTIME_ID) - at;
		at = cpu_of(CLOCK_THREAD_CPUTIME_ID);
		stages_feed(&f->r, i, b);
		f->loop += cpu_of(CLOCK_THREAD_CPUTIME_ID) - at;
	}
}

/* The windows of all nodes. */
static void
close_windows(struct fleet *f, unsigned second)
{
	kp_wall_ns end = BEGAN + (kp_wall_ns)second * KP_NS_PER_S;
	int64_t at = cpu_of(CLOCK_THREAD_CPUTIME_ID);
	struct kp_window *w;

	for (uint32_t i = 0; i < f->nodes; i++) {
		w = kp_stats_rotate(f->r.st[i], end - WINDOW, end);
		if (w == NULL)
			exit(1);
		kp_store_window(f->store, w);
	}
	f->loop += cpu_of(CLOCK_THREAD_CPUTIME_ID) - at;
}

/* As an answer to Prometheus; prints how long it took. */
static void
put_metrics(struct fleet *f, const char *path)
{
	int64_t at = cpu_of(CLOCK_THREAD_CPUTIME_ID);
	struct kp_buf b;
	struct prom x;
	FILE *to;

	kp_buf_init(&b, SIZE_MAX / 2);
	prom_begin(&x, &b, PROM_TEXT);
	families_write(&x, f->totals);
	prom_end(&x);
	if (b.err != KP_OK)
		exit(1);
	printf("; an answer to Prometheus %.0f ms, %.1f MiB",
	    (double)(cpu_of(CLOCK_THREAD_CPUTIME_ID) - at) / 1e6,
	    (double)b.len / (1 << 20));
	to = path != NULL ? fopen(path, "w") : NULL;
	if (path != NULL && (to == NULL || fwrite(b.p, 1, b.len, to) != b.len ||
	    fclose(to) != 0)) {
		perror(path);
		exit(1);
	}
	kp_buf_free(&b);
}

static void
on_sync(void *ctx, bool ok)
{
	if (!ok)
		fprintf(stderr, "bench_fleet: not written\n");
	sem_post(ctx);
}

static void
run(uint32_t nodes, unsigned seconds, unsigned rate, bool native, const char *metrics)
{
	static const char path[] = "bench_fleet.db";
	struct fleet *f = calloc(1, sizeof(*f));
	int64_t began, whole;
	double before;
	struct kp_buf b;
	sem_t done;

	if (f == NULL)
		exit(1);
	*f = (struct fleet){ .nodes = nodes, .seconds = seconds, .rate = rate,
		.native = native };
	before = resident_mib();
	f->totals = totals_new();
	if (f->totals == NULL)
		exit(1);
	unlink(path);
	stages_init(&f->r, nodes, native);
	for (uint32_t i = 0; i < nodes; i++) {
		snprintf(f->names[i], sizeof(f->names[i]), "shop@web-%u", i + 1);
		kp_stats_rename(f->r.st[i], f->names[i]);
		f->l[i] = (struct load){ .flight = FLIGHT, .idents = TYPES,
			.native = native, .label = (uint64_t)i << 40 };
	}
	step = KP_NS_PER_S / (rate * LOAD_EVENTS);
	open_store(f, path);
	kp_buf_init(&b, 1 << 22);
	began = cpu_of(CLOCK_PROCESS_CPUTIME_ID);
	for (unsigned s = 1; s <= seconds; s++) {
		for (uint32_t i = 0; i < nodes; i++)
			feed_second(f, i, &b);
		if (s % (WINDOW / KP_NS_PER_S) == 0)
			close_windows(f, s);
	}
	sem_init(&done, 0, 0);
	kp_store_sync(f->store, on_sync, &done);
	sem_wait(&done);
	sem_destroy(&done);
	whole = cpu_of(CLOCK_PROCESS_CPUTIME_ID) - began - f->making;
	printf("%3u nodes, %s: loop %5.2f %% of a processor, writer %5.2f %%; %6.1f MiB; "
	    "%" PRIu64 " requests; ", nodes, native ? "native" : "relay",
	    (double)f->loop / 1e7 / seconds, (double)(whole - f->loop) / 1e7 / seconds,
	    resident_mib() - before, f->r.requests);
	kp_store_close(f->store);
	printf("%.1f MiB of database an hour", file_mib(path) * 3600 / seconds);
	put_metrics(f, metrics);
	printf("\n");
	unlink(path);
	totals_free(f->totals);
	kp_buf_free(&b);
	stages_free(&f->r);
	free(f);
}

/* In a process of its own, whose memory nobody else has used. */
static void
apart(uint32_t nodes, unsigned seconds, unsigned rate, bool native, const char *metrics)
{
	int st;
	pid_t pid = fork();

	if (pid == 0) {
		run(nodes, seconds, rate, native, metrics);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &st, 0) != pid || st != 0)
		exit(1);
}

int
main(int argc, char **argv)
{
	static const uint32_t fleets[] = { 1, 16, KP_NODES_MAX };
	long nodes = argc > 1 ? atol(argv[1]) : 0;
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 60;
	unsigned rate = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;
	const char *metrics = argc > 4 ? argv[4] : NULL;

	if (nodes < 0 || nodes > KP_NODES_MAX || seconds < 10 || rate < 1)
		return 1;
	for (size_t i = 0; i < (nodes > 0 ? 1 : 3); i++)
		for (int native = 0; native < 2; native++)
			apart(nodes > 0 ? (uint32_t)nodes : fleets[i], seconds, rate,
			    native == 1, metrics);
	return 0;
}
