/*
 * connect.c - connects on a thread, which reports through a pipe.
 *
 * The loop and the thread share the job; the last to release it frees it, so that
 * giving up never waits for a silent target.  The resolver has time limits of
 * its own, so the thread may exceed its limit: the loop gives up GRACE later.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/thread.h"
#include "conn/connect.h"
#include "conn/dial.h"

#define GRACE KP_NS_PER_S

struct job {
	atomic_int users;
	int pipe[2];
	char *target, *cookie;
	struct reach reach;
	kp_dur_ns limit;
	bool known;
	enum kp_err err;
	struct node_conn conn;
	char why[NODE_WHY_MAX];
};

struct connect {
	struct job *job;
	struct event *ev;
	void (*done)(void *, enum kp_err, const struct node_conn *,
	    const char *);
	void *ctx;
	bool taken;		/* the channel went to done() */
};

static void
job_release(struct job *j, bool taken)
{
	if (taken && j->err == KP_OK)
		j->conn.channel = NULL;
	if (atomic_fetch_sub(&j->users, 1) != 1)
		return;
	channel_free(j->conn.channel);
	close(j->pipe[0]);
	close(j->pipe[1]);
	if (j->cookie != NULL)
		explicit_bzero(j->cookie, strlen(j->cookie));
	free(j->cookie);
	free(j->target);
	free(j);
}

static void *
job_run(void *arg)
{
	struct job *j = arg;
	struct node_opts o = { .target = j->target, .reach = &j->reach,
		.cookie = j->cookie, .limit = j->limit, .known = j->known };
	struct node_conn conn = { .channel = NULL };
	ssize_t n;

	j->err = node_connect(&o, &conn, j->why, sizeof(j->why));
	if (j->err == KP_OK)
		j->conn = conn;
	n = write(j->pipe[1], "", 1);
	(void)n;	/* without a reader, job_release() closes the channel */
	job_release(j, false);
	return NULL;
}

/* Does not read job->why, which the thread may be writing. */
static void
give_up(struct connect *c)
{
	char why[512];
	struct node_place place;

	if (node_place_find(&place, c->job->target, &c->job->reach, why,
	    sizeof(why)) != KP_OK)
		place.host[0] = '\0';

	snprintf(why, sizeof(why), "cannot connect to '%s': no answer within "
	    "%lld s (does the name '%s' resolve here?)", c->job->target,
	    (long long)((c->job->limit + GRACE) / KP_NS_PER_S), place.host);
	c->done(c->ctx, KP_ETIMEOUT, NULL, why);
}

static void
on_pipe(evutil_socket_t fd, short what, void *ctx)
{
	struct connect *c = ctx;
	struct job *j = c->job;
	char byte;

	if ((what & EV_TIMEOUT) != 0) {
		give_up(c);
		return;
	}
	if (read(fd, &byte, 1) != 1)
		return;
	c->taken = true;
	c->done(c->ctx, j->err, &j->conn, j->why);
}

static struct job *
job_new(const struct node_opts *o)
{
	struct job *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->limit = o->limit;
	j->known = o->known;
	j->target = strdup(o->target);
	j->cookie = strdup(o->cookie);
	if (o->reach != NULL)
		j->reach = *o->reach;
	atomic_init(&j->users, 1);
	if (pipe2(j->pipe, O_CLOEXEC) < 0) {
		j->pipe[0] = j->pipe[1] = -1;
		job_release(j, false);
		return NULL;
	}
	if (j->target == NULL || j->cookie == NULL) {
		job_release(j, false);
		return NULL;
	}
	return j;
}

struct connect *
connect_start(struct event_base *base, const struct node_opts *o,
    void (*done)(void *, enum kp_err, const struct node_conn *, const char *),
    void *ctx)
{
	struct connect *c = calloc(1, sizeof(*c));
	kp_dur_ns limit = o->limit + GRACE;
	struct timeval tv = { limit / KP_NS_PER_S,
		limit % KP_NS_PER_S / KP_NS_PER_US };
	pthread_t thread;

	if (c == NULL || (c->job = job_new(o)) == NULL) {
		free(c);
		return NULL;
	}
	c->done = done;
	c->ctx = ctx;
	c->ev = event_new(base, c->job->pipe[0], EV_READ, on_pipe, c);
	if (c->ev == NULL || event_add(c->ev, &tv) != 0) {
		connect_free(c);
		return NULL;
	}
	atomic_fetch_add(&c->job->users, 1);
	if (kp_thread_start(&thread, job_run, c->job) != 0) {
		atomic_fetch_sub(&c->job->users, 1);
		connect_free(c);
		return NULL;
	}
	pthread_detach(thread);
	return c;
}

void
connect_free(struct connect *c)
{
	if (c == NULL)
		return;
	if (c->ev != NULL)
		event_free(c->ev);
	job_release(c->job, c->taken);
	free(c);
}
