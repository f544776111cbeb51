/*
 * recording.h - reads a recording: what a node's agent sent while a program
 * ran, and what kprofd has to say of it (test/recordings/README.md).
 *
 * Nobody vouches for these files either: numbers and names are bounded, and
 * any line that is not as it should be fails the test.
 */
#ifndef TEST_RECORDING_H
#define TEST_RECORDING_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/request.h"

enum { REC_BYTES = 1 << 20, REC_MESSAGES = 1000, REC_REQUESTS = 100,
	REC_CALLS = 1000, REC_CELLS = 100, REC_WORD = 64 };

#define REC_ANY UINT32_MAX	/* the parent goes without saying */

/* At some moment between the two. */
struct rec_time {
	int64_t least, most;
};

struct rec_request {
	uint32_t id, outer;
	char identity[REC_WORD];
	struct rec_time start, end;
	uint8_t outcome;
	bool expired, sequential;
	/* the replay's */
	uint64_t label, parent_label;
	bool found;
};

struct rec_call {
	uint32_t id, request, parent;
	char proc[REC_WORD], fn[REC_WORD];
	struct rec_time start, end;
	uint8_t outcome;
	bool async;
	bool found;		/* the replay's */
};

struct rec_cell {
	char tier[REC_WORD], identity[REC_WORD];
	uint64_t requests, calls, raised, unfinished, ambiguous, unknown, async;
	struct rec_time total, busy, async_time;
};

/* A {kprof_events, ...}, or only the time of a status. */
struct rec_message {
	const uint8_t *p;	/* NULL: a status */
	size_t n;
	kp_target_ns now;
};

struct recording {
	char *bytes, *at, *end;
	int otp;
	char *tiers;
	size_t tiers_len;
	struct rec_message messages[REC_MESSAGES];
	struct rec_request requests[REC_REQUESTS];
	struct rec_call calls[REC_CALLS];
	struct rec_cell cells[REC_CELLS];
	size_t nmessages, nrequests, ncalls, ncells;
	struct kp_losses losses;
};

/* The next line without its end; fails at the end of the file. */
static inline char *
rec_line(struct recording *r)
{
	char *line = r->at, *nl = memchr(line, '\n', (size_t)(r->end - line));

	if (nl == NULL)
		fail_msg("the file ends in a line");
	*nl = '\0';
	r->at = nl + 1;
	return line;
}

/* n bytes and the end of their line. */
static inline char *
rec_block(struct recording *r, size_t n)
{
	char *block = r->at;

	if (n >= (size_t)(r->end - r->at) || block[n] != '\n')
		fail_msg("the file ends in a block");
	r->at += n + 1;
	return block;
}

static inline uint8_t
rec_outcome(const char *word)
{
	for (uint8_t o = KP_RETURNED; o < KP_OUTCOMES; o++)
		if (strcmp(word, kp_outcome_name(o)) == 0)
			return o;
	if (strcmp(word, "expired") != 0)
		fail_msg("no outcome: '%s'", word);
	return KP_UNFINISHED;
}

static inline bool
rec_read_request(struct recording *r, const char *line)
{
	struct rec_request *q = &r->requests[r->nrequests++];
	char outcome[REC_WORD], kind[REC_WORD];

	assert_true(r->nrequests <= REC_REQUESTS);
	if (sscanf(line, "request %" SCNu32 " %63s %" SCNu32 " %" SCNd64
	    " %" SCNd64 " %" SCNd64 " %" SCNd64 " %63s %63s", &q->id,
	    q->identity, &q->outer, &q->start.least, &q->start.most,
	    &q->end.least, &q->end.most, outcome, kind) != 9)
		return false;
	q->outcome = rec_outcome(outcome);
	q->expired = strcmp(outcome, "expired") == 0;
	q->sequential = strcmp(kind, "sequential") == 0;
	return true;
}

static inline bool
rec_read_call(struct recording *r, const char *line)
{
	struct rec_call *c = &r->calls[r->ncalls++];
	char parent[REC_WORD], outcome[REC_WORD], place[REC_WORD];

	assert_true(r->ncalls <= REC_CALLS);
	if (sscanf(line, "call %" SCNu32 " %" SCNu32 " %63s %63s %63s %" SCNd64
	    " %" SCNd64 " %" SCNd64 " %" SCNd64 " %63s %63s", &c->id,
	    &c->request, c->proc, c->fn, parent, &c->start.least,
	    &c->start.most, &c->end.least, &c->end.most, outcome, place) != 11)
		return false;
	c->parent = strcmp(parent, "any") == 0 ? REC_ANY :
	    (uint32_t)strtoul(parent, NULL, 10);
	c->outcome = rec_outcome(outcome);
	c->async = strcmp(place, "async") == 0;
	return true;
}

static inline bool
rec_read_cell(struct recording *r, const char *line)
{
	struct rec_cell *c = &r->cells[r->ncells++];

	assert_true(r->ncells <= REC_CELLS);
	return sscanf(line, "cell %63s %63s %" SCNu64 " %" SCNu64 " %" SCNu64
	    " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64
	    " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
	    c->tier,
	    c->identity, &c->requests, &c->calls, &c->raised, &c->unfinished,
	    &c->ambiguous, &c->unknown, &c->async, &c->total.least, &c->total.most,
	    &c->busy.least, &c->busy.most, &c->async_time.least,
	    &c->async_time.most) == 15;
}

static inline bool
rec_read_loss(struct recording *r, const char *line)
{
	char cause[REC_WORD];
	uint64_t n;

	if (sscanf(line, "loss %63s %" SCNu64, cause, &n) != 2)
		return false;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		if (strcmp(cause, kp_loss_name((enum kp_loss)i)) == 0) {
			r->losses.n[i] = n;
			return true;
		}
	return false;
}

static inline void
rec_add_message(struct recording *r, const void *p, size_t n,
    kp_target_ns now)
{
	assert_true(r->nmessages < REC_MESSAGES);
	r->messages[r->nmessages++] = (struct rec_message){ p, n, now };
}

/* False after the last line. */
static inline bool
rec_read_line(struct recording *r)
{
	char *line = rec_line(r);
	kp_target_ns now;
	bool ok = false;
	size_t n;

	if (strcmp(line, "end") == 0)
		return false;
	if (sscanf(line, "batch %zu", &n) == 1) {
		rec_add_message(r, rec_block(r, n), n, 0);
		ok = true;
	} else if (sscanf(line, "status %" SCNd64, &now) == 1) {
		rec_add_message(r, NULL, 0, now);
		ok = true;
	} else if (strncmp(line, "request ", 8) == 0) {
		ok = rec_read_request(r, line);
	} else if (strncmp(line, "call ", 5) == 0) {
		ok = rec_read_call(r, line);
	} else if (strncmp(line, "cell ", 5) == 0) {
		ok = rec_read_cell(r, line);
	} else if (strncmp(line, "loss ", 5) == 0) {
		ok = rec_read_loss(r, line);
	}
	if (!ok)
		fail_msg("not a line of a recording: '%s'", line);
	return true;
}

/* To be freed with recording_free(). */
static inline struct recording *
recording_read(const char *path)
{
	struct recording *r = test_calloc(1, sizeof(*r));
	FILE *f = fopen(path, "rb");
	size_t n;

	if (f == NULL)
		fail_msg("cannot open '%s'", path);
	r->bytes = r->at = test_malloc(REC_BYTES);
	n = fread(r->bytes, 1, REC_BYTES, f);
	fclose(f);
	assert_true(n < REC_BYTES);
	r->end = r->bytes + n;
	assert_string_equal(rec_line(r), "recording 1");
	if (sscanf(rec_line(r), "otp %d", &r->otp) != 1 ||
	    sscanf(rec_line(r), "tiers %zu", &r->tiers_len) != 1)
		fail_msg("no head of a recording");
	r->tiers = rec_block(r, r->tiers_len);
	while (rec_read_line(r))
		;
	assert_true(r->at == r->end);
	return r;
}

static inline void
recording_free(struct recording *r)
{
	test_free(r->bytes);
	test_free(r);
}

#endif
