/*
 * bench_web.c - how long the HTTP API's answers take on a month of a large
 * cluster's windows, and whether the writer keeps up meanwhile.
 *
 *     bench_web [FILE [PERCENT]]	FILE: made if it is not there;
 *					PERCENT: see month.h
 *
 * Each answer is made as kprof web makes it, from opening the database to the
 * last byte of JSON; what is printed is the median of seven, of CPU time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "month.h"
#include "web/server.h"

#define ROUNDS 7
#define AIM_MS 300
#define INGEST_SECONDS 20
#define INGEST_HASTE 5		/* times as fast as windows really come */

static const char *path = "bench_web.db";

static void
die(const char *why)
{
	fprintf(stderr, "bench_web: %s\n", why);
	exit(1);
}

static double
cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* CPU time in *ms; false: there was no answer, and it was said why. */
static bool
ask(const char *name, const char *query, double *ms)
{
	const char *allow;
	const struct operation *op = operation_find(name, false, true, &allow);
	static struct web_params p;
	struct api_answer a;
	char why[256];

	if (op == NULL || !web_params_parse(&p, query, op->params,
	    MONTH_END, why, sizeof(why)))
		die(op == NULL ? name : why);
	p.id = strchr(name, '/') != NULL ? strchr(name, '/') + 1 : NULL;
	*ms = cpu_ms();
	api_ask(&a, &(struct kp_query_files){ &path, 1 }, op, &p, NULL);
	*ms = cpu_ms() - *ms;
	if (a.status != 200)
		fprintf(stderr, "%s?%s: %s\n", name, query,
		    kp_buf_cstr(&a.b));
	kp_buf_free(&a.b);
	return a.status == 200;
}

static int
double_cmp(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return a < b ? -1 : a > b;
}

static const struct view {
	const char *name, *route, *more;
	bool range, node;	/* which of these it takes */
} views[] = {
	{ "about", "about", "", false, false },
	{ "nodes", "nodes", "", true, false },
	{ "tiers", "tiers", "", false, false },
	{ "identities", "identities", "", true, true },
	{ "report", "report", "", true, true },
	{ "report of one identity", "report", "&identity=GET%20/things/7",
	    true, true },
	{ "report by node", "report", "&by=node", true, true },
	{ "compare", "compare", "&versus=2d,1d", true, true },
	{ "compare by node", "compare", "&versus=2d,1d&by=node", true, true },
	{ "changes", "changes", "", true, true },
	{ "series", "series", "", true, true },
	{ "series of one identity", "series", "&identity=GET%20/things/7",
	    true, true },
	{ "series of one tier", "series", "&tier=tier07", true, true },
	{ "heatmap", "heatmap", "", true, true },
	{ "objectives", "slo", "", true, true },
	{ "objectives by node", "slo", "&by=node", true, true },
	{ "load", "load", "", true, true },
	{ "losses", "losses", "", true, true },
	{ "slow", "slow", "&limit=15", true, true },
	{ "slow of one identity", "slow",
	    "&limit=15&identity=GET%20/things/7", true, true },
	{ "slow by its own time", "slow", "&limit=15&sort=self", true, true },
	{ "a slow request", "requests/7", "", true, true },
	{ "events", "events", "", true, true },
	{ "stacks", "stacks", "", true, true },
	{ "stacks of one identity", "stacks", "&identity=GET%20/things/7", true,
	    true },
	{ "stacks: slow against fast", "stacks", "&identity=GET%20/things/7"
	    "&took=16ms&against=durations", true, true },
	{ "memory", "memory", "", true, true },
};
#define NVIEWS (sizeof(views) / sizeof(views[0]))

/* Ends are not on full minutes: a page asks for the time until now. */
static const struct {
	const char *name, *since, *until;
} ranges[] = {
	{ "30 min", "1837s", "37s" }, { "3 h", "10837s", "37s" },
	{ "12 h", "43237s", "37s" }, { "1 day", "86437s", "37s" },
	{ "30 days", "2592000s", "0s" },
	{ "dragged", "1234567s", "345678s" },
};
#define NRANGES (sizeof(ranges) / sizeof(ranges[0]))

static const char *const whose[] = { "", "&node=web03@host",
	"&node=web01@host&node=web02@host&node=web03@host" };

static double
median(const struct view *v, const char *query)
{
	double ms[ROUNDS];
	int failed = 0;

	/* on a busy machine one may take more time than it may */
	for (int i = 0; i < ROUNDS;) {
		if (ask(v->route, query, &ms[i]))
			i++;
		else if (++failed > 3 * ROUNDS)
			die("no answers");
	}
	qsort(ms, ROUNDS, sizeof(ms[0]), double_cmp);
	return ms[ROUNDS / 2];
}

static double
table(const char *nodes)
{
	double ms, worst = 0;
	char query[512];

	printf("| view |");
	for (size_t r = 0; r < NRANGES; r++)
		printf(" %s |", ranges[r].name);
	printf("\n| --- |");
	for (size_t r = 0; r < NRANGES; r++)
		printf(" --- |");
	printf("\n");
	for (size_t i = 0; i < NVIEWS; i++) {
		printf("| %s |", views[i].name);
		for (size_t r = 0; r < (views[i].range ? NRANGES : 1); r++) {
			query[0] = '\0';
			if (views[i].range)
				snprintf(query, sizeof(query),
				    "since=%s&until=%s%s%s", ranges[r].since,
				    ranges[r].until, views[i].node ? nodes : "",
				    views[i].more);
			ms = median(&views[i], query);
			worst = ms > worst ? ms : worst;
			printf(" %.1f |", ms);
			fflush(stdout);
		}
		printf("\n");
	}
	return worst;
}

/* ---- ingest, while questions are asked without a pause ---- */

static atomic_bool enough;

static void *
keep_asking(void *ctx)
{
	unsigned *n = ctx;
	char query[256];
	double ms;

	while (!enough) {
		snprintf(query, sizeof(query), "since=%s&until=%s",
		    ranges[*n % NRANGES].since, ranges[*n % NRANGES].until);
		ask("report", query, &ms);
		++*n;
	}
	return NULL;
}

/* The present, so that what is added up is up to date. */
static kp_wall_ns
last_window(void *ctx)
{
	return *(_Atomic kp_wall_ns *)ctx;
}

static void
ingest(void)
{
	static _Atomic kp_wall_ns at = MONTH_END;
	struct kp_store_opts o = month_opts(path);
	const struct timespec pause = { 0, 1000000000 / INGEST_HASTE };
	struct kp_store_status st;
	size_t most = 0;
	unsigned asked = 0;
	struct kp_store *s;
	pthread_t thread;
	char *why;

	o.now = last_window;
	o.ctx = &at;
	if (kp_store_open(&s, &o, &why) != KP_OK)
		die(why);
	if (pthread_create(&thread, NULL, keep_asking, &asked) != 0)
		die("no thread");
	for (int i = 0; i < INGEST_SECONDS * INGEST_HASTE / 10; i++) {
		for (int n = 0; n < MONTH_NODES; n++)
			kp_store_window(s, month_window(n, at));
		at += 10 * KP_NS_PER_S;
		for (int k = 0; k < 10; k++) {
			nanosleep(&pause, NULL);
			kp_store_status(s, &st);
			most = st.windows > most ? st.windows : most;
		}
	}
	enough = true;
	pthread_join(thread, NULL);
	kp_store_status(s, &st);
	printf("meanwhile %u questions asked, %llu windows written, at most "
	    "%zu waiting; dropped: %llu rows\n", asked, (unsigned long long)
	    ((at - MONTH_END) / (10 * KP_NS_PER_S) * MONTH_NODES), most,
	    (unsigned long long)kp_store_dropped(&st));
	kp_store_close(s);
}

int
main(int argc, char **argv)
{
	int percent = argc > 2 ? atoi(argv[2]) : MONTH_PERCENT;
	double ms, worst = 0;
	bool ours;

	path = argc > 1 ? argv[1] : path;
	ours = access(path, F_OK) != 0;
	if (ours)
		month_make(path, percent);
	for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++) {
		printf("%s: ms of CPU time\n", i == 0 ? "all nodes" :
		    i == 1 ? "one node" : "three nodes");
		ms = table(whose[i]);
		worst = ms > worst ? ms : worst;
	}
	printf("the slowest: %.0f ms (aim: %d)\n", worst, AIM_MS);
	ingest();
	if (ours && argc < 2)
		unlink(path);
	return 0;
}
