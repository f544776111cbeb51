/* feed.c - see the header. */
#include <stdlib.h>
#include <string.h>

#include "cell_row.h"
#include "feed.h"
#include "read.h"

#define WINDOWS_AT_ONCE 64

/* What is known of a window before its cells are read. */
struct head {
	int64_t id;
	struct kp_window w;
};

static enum kp_err
find_run(struct kp_query *q, struct kp_feed *f)
{
	struct kp_feed now = { .run = 0 };
	struct read rd;
	enum kp_err err;

	/* requests of earlier runs are not deleted before they were seen */
	read_start(&rd, q, "select id, started_ns, (select"
	    " coalesce(max(q.id), 0) from request q where q.run_id < run.id)"
	    " from run order by id desc limit 1");
	if (read_next(&rd)) {
		now.run = read_int(&rd, 0);
		now.started = read_int(&rd, 1);
		now.request = read_int(&rd, 2);
	}
	err = read_end(&rd);
	if (err == KP_OK && (now.run != f->run || now.started != f->started))
		*f = now;
	return err;
}

/*
 * SQLite gives the id of a row again when it was the last one and is deleted:
 * of a table that was emptied by its age.
 */
static enum kp_err
step_back(struct kp_query *q, struct kp_feed *f)
{
	struct read rd;

	read_start(&rd, q, "select coalesce(max(id), 0) from time_window");
	if (read_next(&rd) && read_int(&rd, 0) < f->window)
		f->window = read_int(&rd, 0);
	return read_end(&rd);
}

static enum kp_err
read_heads(struct kp_query *q, const struct kp_feed *f,
    struct head v[WINDOWS_AT_ONCE], size_t *n)
{
	struct read rd;

	*n = 0;
	read_start(&rd, q, "select w.id, n.name, w.start_ns, w.end_ns,"
	    " w.entry_calls, w.sampled from time_window w"
	    " join node n on n.id = w.node_id where w.id > ?1"
	    " and w.run_id = ?2 and w.level = 0 order by w.id limit ?3");
	read_bind(&rd, f->window);
	read_bind(&rd, f->run);
	read_bind(&rd, WINDOWS_AT_ONCE);
	while (read_next(&rd)) {
		v[(*n)++] = (struct head){ read_int(&rd, 0), {
			.node = read_text(&rd, 1),
			.start = read_int(&rd, 2),
			.end = read_int(&rd, 3),
			.entry_calls = (uint64_t)read_int(&rd, 4),
			.sampled = (uint64_t)read_int(&rd, 5) } };
	}
	return read_end(&rd);
}

static enum kp_err
read_cells(struct kp_query *q, int64_t id, struct kp_window *w)
{
	struct kp_hist hist;
	struct kp_cell *v;
	struct read rd;

	read_start(&rd, q, "select " CELL_COLUMNS ", t.name, i.name"
	    " from stat s join tier t on t.id = s.tier_id"
	    " join identity i on i.id = s.identity_id where s.window_id = ?");
	read_bind(&rd, id);
	while (read_next(&rd)) {
		v = read_grow(&rd, w->cells, w->ncells, sizeof(*v));
		if (v == NULL)
			break;
		w->cells = v;
		/* the cell has it from then on */
		kp_hist_init(&hist);
		cell_row_read(rd.st, &v[w->ncells], &hist);
		v[w->ncells].tier = read_text(&rd, CELL_BEHIND);
		v[w->ncells].identity = read_text(&rd, CELL_BEHIND + 1);
		w->ncells++;
	}
	return read_end(&rd);
}

static enum kp_err
read_losses(struct kp_query *q, int64_t id, struct kp_losses *losses)
{
	const char *name;
	struct read rd;

	read_start(&rd, q, "select c.name, l.n from loss l"
	    " join cause c on c.id = l.cause_id where l.window_id = ?");
	read_bind(&rd, id);
	while (read_next(&rd)) {
		name = read_text(&rd, 0);
		for (int i = 0; i < KP_LOSS_COUNT; i++)
			if (strcmp(name, kp_loss_name(i)) == 0)
				losses->n[i] += (uint64_t)read_int(&rd, 1);
	}
	return read_end(&rd);
}

static void
release_cells(struct kp_window *w)
{
	for (size_t i = 0; i < w->ncells; i++)
		kp_hist_free(&w->cells[i].hist);
	free(w->cells);
}

static enum kp_err
take_windows(struct kp_query *q, struct kp_feed *f, size_t *n,
    kp_feed_window_fn *fn, void *ctx)
{
	struct head v[WINDOWS_AT_ONCE];
	enum kp_err err = read_heads(q, f, v, n);

	for (size_t i = 0; i < *n && err == KP_OK; i++) {
		err = read_cells(q, v[i].id, &v[i].w);
		if (err == KP_OK)
			err = read_losses(q, v[i].id, &v[i].w.losses);
		if (err == KP_OK) {
			fn(ctx, &v[i].w);
			f->window = v[i].id;
		}
		release_cells(&v[i].w);
	}
	return err;
}

static enum kp_err
read_newest(struct kp_query *q, int64_t *newest)
{
	struct read rd;

	*newest = 0;
	read_start(&rd, q, "select coalesce(max(id), 0) from request");
	if (read_next(&rd))
		*newest = read_int(&rd, 0);
	return read_end(&rd);
}

enum kp_err
kp_feed_requests(struct kp_query *q, struct kp_feed *f, int64_t *ids,
    size_t max, size_t *n, int64_t *newest)
{
	enum kp_err err = find_run(q, f);
	struct read rd;

	*n = 0;
	if (err == KP_OK)
		err = read_newest(q, newest);
	if (err != KP_OK)
		return err;
	if (*newest < f->request)
		f->request = *newest;	/* as of step_back() */
	read_start(&rd, q, "select id from request where id > ?1"
	    " and run_id = ?2 order by id limit ?3");
	read_bind(&rd, f->request);
	read_bind(&rd, f->run);
	read_bind(&rd, (int64_t)max);
	while (read_next(&rd))
		ids[(*n)++] = read_int(&rd, 0);
	return read_end(&rd);
}

enum kp_err
kp_feed_windows(struct kp_query *q, struct kp_feed *f, kp_feed_window_fn *fn,
    void *ctx)
{
	size_t n = 0;
	enum kp_err err;

	/* one transaction: a window must not go while it is read */
	sqlite3_exec(q->conn, "begin", NULL, NULL, NULL);
	err = find_run(q, f);
	if (err == KP_OK)
		err = step_back(q, f);
	do {
		if (err == KP_OK)
			err = take_windows(q, f, &n, fn, ctx);
	} while (err == KP_OK && n == WINDOWS_AT_ONCE);
	sqlite3_exec(q->conn, "commit", NULL, NULL, NULL);
	return err;
}
