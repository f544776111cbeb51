/*
 * request_tail.c - queries for the newest run, and for the ids of its requests
 * after the last one that was read.
 */
#include "request_tail.h"
#include "read.h"

enum kp_err
kp_request_tail_run(struct kp_query *q, struct kp_request_tail *f)
{
	struct kp_request_tail now = { .run = 0 };
	struct read rd;
	enum kp_err err;

	/* earlier runs' requests are not deleted before they are read */
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
kp_request_tail_next(struct kp_query *q, struct kp_request_tail *f, int64_t *ids,
    size_t max, size_t *n, int64_t *newest)
{
	enum kp_err err = kp_request_tail_run(q, f);
	struct read rd;

	*n = 0;
	if (err == KP_OK)
		err = read_newest(q, newest);
	if (err != KP_OK)
		return err;
	/* SQLite uses the last row's id again if that was deleted */
	if (*newest < f->request)
		f->request = *newest;
	read_start(&rd, q, "select id from request where id > ?1"
	    " and run_id = ?2 order by id limit ?3");
	read_bind(&rd, f->request);
	read_bind(&rd, f->run);
	read_bind(&rd, (int64_t)max);
	while (read_next(&rd))
		ids[(*n)++] = read_int(&rd, 0);
	return read_end(&rd);
}
