/*
 * message_waits.c - adds up each receiver's cells, sorts receivers by total wait,
 * and writes a table or JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "text/grid.h"
#include "report/losses.h"
#include "report/message_waits.h"
#include "text/text.h"

/* A receiver's cells, and their sum. */
struct receiver {
	struct kp_wait_cell all;
	const struct kp_wait_cell *v;
	size_t n;
};

struct receivers {
	struct receiver *v;
	size_t n;
};

static void
receivers_free(struct receivers *rs)
{
	for (size_t i = 0; i < rs->n; i++)
		kp_hist_free(&rs->v[i].all.hist);
	free(rs->v);
}

static int
by_wait(const void *pa, const void *pb)
{
	const struct receiver *a = pa, *b = pb;

	if (a->all.w_wait != b->all.w_wait)
		return a->all.w_wait < b->all.w_wait ? 1 : -1;
	return strcmp(a->all.receiver, b->all.receiver);
}

static enum kp_err
receivers_make(struct receivers *rs, const struct kp_query_waits *w)
{
	enum kp_err err = KP_OK;
	struct receiver *r = NULL;

	*rs = (struct receivers){ .v = calloc(w->n + 1, sizeof(*rs->v)) };
	if (rs->v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < w->n && err == KP_OK; i++) {
		if (r == NULL ||
		    strcmp(r->all.receiver, w->v[i].receiver) != 0) {
			r = &rs->v[rs->n++];
			r->all = (struct kp_wait_cell){ .min = -1,
				.receiver = w->v[i].receiver };
			r->v = &w->v[i];
		}
		r->n++;
		err = kp_wait_cell_merge(&r->all, &w->v[i]);
	}
	if (err != KP_OK) {
		receivers_free(rs);
		return err;
	}
	qsort(rs->v, rs->n, sizeof(*rs->v), by_wait);
	return KP_OK;
}

static kp_dur_ns
mean(const struct kp_wait_cell *c)
{
	return c->w_messages > 0 ? c->w_wait / (int64_t)c->w_messages : -1;
}

static kp_dur_ns
quantile(const struct kp_wait_cell *c, double q)
{
	return kp_hist_quantile_within(&c->hist, q, c->min, c->max);
}

static void
count_cell(struct grid *g, uint64_t n, bool known)
{
	char text[TEXT_MAX];

	grid_cell(g, text_known(text, n, known));
}

static void
ms_cell(struct grid *g, kp_dur_ns d)
{
	char text[TEXT_MAX];

	grid_cell(g, text_ms(text, d));
}

enum kp_err
messages_table(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover, unsigned width)
{
	char name[FN_NAME_MAX];
	const struct kp_wait_cell *c;
	struct receivers rs;
	struct grid g;
	bool known;
	enum kp_err err = receivers_make(&rs, w);

	if (err != KP_OK)
		return err;
	grid_init(&g);
	grid_col(&g, "receiver", GRID_LEFT);
	grid_col(&g, "messages", GRID_RIGHT);
	grid_col_optional(&g, "from afar", GRID_RIGHT, 1);
	grid_col(&g, "total ms", GRID_RIGHT);
	grid_col(&g, "mean ms", GRID_RIGHT);
	grid_col_optional(&g, "p50 ms", GRID_RIGHT, 2);
	grid_col_optional(&g, "p95 ms", GRID_RIGHT, 4);
	grid_col_optional(&g, "p99 ms", GRID_RIGHT, 3);
	grid_col_optional(&g, "max ms", GRID_RIGHT, 5);
	for (size_t i = 0; i < rs.n; i++) {
		c = &rs.v[i].all;
		known = c->w_messages == c->messages;
		grid_cell(&g, fn_shown(name, sizeof(name), c->receiver));
		count_cell(&g, c->w_messages, known);
		count_cell(&g, c->w_away, known);
		ms_cell(&g, c->w_wait);
		ms_cell(&g, mean(c));
		ms_cell(&g, quantile(c, 0.50));
		ms_cell(&g, quantile(c, 0.95));
		ms_cell(&g, quantile(c, 0.99));
		ms_cell(&g, c->max);
	}
	if (rs.n > 0)
		grid_write(&g, width, b);
	else
		text_wrap(b, "no messages were timed: {messages, true} in "
		    "tiers.conf does that", width, 2);
	kp_buf_u8(b, '\n');
	losses_cover_text(b, "", cover, width);
	grid_free(&g);
	receivers_free(&rs);
	return KP_OK;
}

static void
json_figures(struct json *j, const struct kp_wait_cell *c)
{
	json_uint(j, "messages", c->w_messages);
	json_uint(j, "away", c->w_away);
	json_uint(j, "sampled_messages", c->messages);
	json_ms(j, "total_ms", c->w_wait);
	json_ms(j, "mean_ms", mean(c));
	json_ms(j, "min_ms", c->min);
	json_ms(j, "p50_ms", quantile(c, 0.50));
	json_ms(j, "p90_ms", quantile(c, 0.90));
	json_ms(j, "p95_ms", quantile(c, 0.95));
	json_ms(j, "p99_ms", quantile(c, 0.99));
	json_ms(j, "max_ms", c->max);
}

static void
json_receiver(struct json *j, const struct receiver *r)
{
	json_object(j, NULL);
	json_string(j, "receiver", r->all.receiver);
	json_figures(j, &r->all);
	json_array(j, "identities");
	for (size_t i = 0; i < r->n; i++) {
		json_object(j, NULL);
		json_string(j, "identity", r->v[i].identity);
		json_figures(j, &r->v[i]);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

enum kp_err
messages_json(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover)
{
	struct receivers rs;
	struct json j;
	enum kp_err err = receivers_make(&rs, w);

	if (err != KP_OK)
		return err;
	json_begin(&j, b);
	json_object(&j, NULL);
	json_array(&j, "receivers");
	for (size_t i = 0; i < rs.n; i++)
		json_receiver(&j, &rs.v[i]);
	json_end(&j);
	losses_cover_json(&j, cover);
	json_end(&j);
	kp_buf_u8(b, '\n');
	receivers_free(&rs);
	return KP_OK;
}

/* ---- one request ---- */

void
messages_tree_text(struct kp_buf *b, const struct kp_query_tree *t,
    unsigned width)
{
	char name[FN_NAME_MAX];
	const struct kp_query_wait *w;
	struct grid g;

	if (t->nwaits == 0)
		return;
	grid_init(&g);
	grid_col(&g, "waited for", GRID_LEFT);
	grid_col_optional(&g, "process", GRID_LEFT, 1);
	grid_col(&g, "messages", GRID_RIGHT);
	grid_col(&g, "total ms", GRID_RIGHT);
	grid_col_optional(&g, "mean ms", GRID_RIGHT, 3);
	grid_col_optional(&g, "max ms", GRID_RIGHT, 4);
	grid_col_optional(&g, "node", GRID_LEFT, 2);
	for (size_t i = 0; i < t->nwaits; i++) {
		w = &t->waits[i];
		grid_cell(&g, fn_shown(name, sizeof(name), w->receiver));
		grid_cell(&g, w->pid);
		count_cell(&g, w->messages, true);
		ms_cell(&g, w->wait);
		ms_cell(&g, w->messages > 0 ? w->wait / (int64_t)w->messages :
		    -1);
		ms_cell(&g, w->max);
		grid_cell(&g, w->node[0] != '\0' ? w->node : t->request.node);
	}
	text_wrap(b, "messages in mailboxes:", width, 2);
	grid_write(&g, width, b);
	kp_buf_u8(b, '\n');
	grid_free(&g);
}

void
messages_tree_json(struct json *j, const struct kp_query_tree *t)
{
	const struct kp_query_wait *w;

	json_array(j, "waits");
	for (size_t i = 0; i < t->nwaits; i++) {
		w = &t->waits[i];
		json_object(j, NULL);
		json_string(j, "receiver", w->receiver);
		json_string(j, "pid", w->pid);
		json_string(j, "node", w->node[0] != '\0' ? w->node :
		    t->request.node);
		json_uint(j, "messages", w->messages);
		json_uint(j, "away", w->away);
		json_ms(j, "total_ms", w->wait);
		json_ms(j, "max_ms", w->max);
		json_end(j);
	}
	json_end(j);
}
