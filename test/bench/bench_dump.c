/*
 * bench_dump.c - how long a window of 1,000 series takes from the loop to a
 * commit, and how long the loop itself is held up.
 *
 *     bench_dump [FILE [WINDOWS]]
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"

enum { TIERS = 10, IDENTS = 100, SERIES = TIERS * IDENTS };

static char tier_names[TIERS][16], identities[IDENTS][24];
static struct kp_tier tiers[TIERS];
static const struct kp_conf conf = { .tiers = tiers, .ntiers = TIERS };

static void
fill_cell(struct kp_cell *c, unsigned i)
{
	*c = (struct kp_cell){ .tier = tier_names[i / IDENTS],
		.identity = identities[i % IDENTS], .requests = 500,
		.w_requests = 5000, .calls = 1000, .w_calls = 10000,
		.timed = 1000, .w_timed = 10000, .min = 20000,
		.max = 90 * KP_NS_PER_MS };
	/* about two hundred buckets, as a busy series has */
	for (unsigned k = 0; k < 1000; k++)
		kp_hist_add(&c->hist, (kp_dur_ns)20000 + k * k * 90, 10);
}

static struct kp_window *
new_window(unsigned n)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	if (w == NULL)
		exit(1);
	w->node = "app@host";
	w->start = kp_wall_now() + n * 10 * KP_NS_PER_S;
	w->end = w->start + 10 * KP_NS_PER_S;
	w->cells = calloc(SERIES, sizeof(*w->cells));
	if (w->cells == NULL)
		exit(1);
	w->ncells = SERIES;
	for (unsigned i = 0; i < SERIES; i++)
		fill_cell(&w->cells[i], i);
	return w;
}

static void
synced(void *ctx, bool ok)
{
	if (!ok)
		fprintf(stderr, "not written\n");
	sem_post(ctx);
}

static void
make_names(void)
{
	for (int i = 0; i < TIERS; i++) {
		snprintf(tier_names[i], sizeof(tier_names[i]), "tier%d", i);
		tiers[i].name = tier_names[i];
	}
	for (int i = 0; i < IDENTS; i++)
		snprintf(identities[i], sizeof(identities[i]),
		    "GET /users/%d", i);
}

static void
run(struct kp_store *s, unsigned windows)
{
	kp_mono_ns t0, t1, t2, sum = 0, worst = 0, put = 0;
	struct kp_window *w;
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < windows; i++) {
		w = new_window(i);
		t0 = kp_mono_now();
		kp_store_window(s, w);
		t1 = kp_mono_now();
		kp_store_sync(s, synced, &done);
		sem_wait(&done);
		t2 = kp_mono_now();
		sum += t2 - t0;
		worst = t2 - t0 > worst ? t2 - t0 : worst;
		put = t1 - t0 > put ? t1 - t0 : put;
	}
	printf("%d series: %.2f ms to disk on average, %.2f ms at worst; "
	    "the loop at most %.3f ms; %u windows\n", SERIES,
	    (double)sum / windows / 1e6, (double)worst / 1e6,
	    (double)put / 1e6, windows);
	sem_destroy(&done);
}

int
main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "bench_dump.db";
	unsigned windows = argc > 2 ? (unsigned)atoi(argv[2]) : 30;
	const struct kp_store_opts o = { .path = path, .version = "bench",
		.tiers_text = "", .conf = &conf, .interval = KP_NS_PER_S };
	struct kp_store *s;
	char *why = NULL;

	make_names();
	unlink(path);
	if (kp_store_open(&s, &o, &why) != KP_OK) {
		fprintf(stderr, "bench_dump: %s\n", why);
		free(why);
		return 1;
	}
	run(s, windows > 0 ? windows : 1);
	kp_store_close(s);
	return 0;
}
