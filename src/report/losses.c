/*
 * losses.c - writes a line for each cause that lost anything, in columns where
 * there is room, and the same as JSON; and runs and events as JSON.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "losses.h"
#include "text/text.h"
#include "text/timefmt.h"

#define ALIGNED_MIN 60u	/* width from which lines are aligned in columns */
#define PHRASE_AT 23u		/* column of the phrase in aligned lines */

/* "4" and "requests", "1" and "request", "320" and "ms". */
struct amount {
	char number[TEXT_MAX], unit[TEXT_MAX];
};

static void
amount(struct amount *a, enum kp_loss cause, uint64_t n)
{
	const char *unit = kp_loss_unit(cause);
	size_t len = strlen(unit);
	char text[TEXT_MAX];

	if (strcmp(unit, "ms") == 0) {
		text_dur(text, n > INT64_MAX / KP_NS_PER_MS ? INT64_MAX :
		    (kp_dur_ns)n * KP_NS_PER_MS);
		unit = text + strcspn(text, " ");
		snprintf(a->number, TEXT_MAX, "%.*s", (int)(unit - text), text);
		snprintf(a->unit, TEXT_MAX, "%s", unit + (*unit == ' '));
		return;
	}
	if (n == 1)
		len -= strcmp(unit, "batches") == 0 ? 2 : 1;
	text_count(a->number, n);
	snprintf(a->unit, TEXT_MAX, "%.*s", (int)len, unit);
}

void
losses_put(struct kp_buf *b, enum kp_loss cause, uint64_t n)
{
	struct amount a;

	amount(&a, cause, n);
	kp_buf_printf(b, "%s %s %s (%s)", a.number, a.unit,
	    kp_loss_help(cause), kp_loss_name(cause));
}

/* A line of columns if there is room, else a sentence. */
static void
loss_line(struct kp_buf *b, enum kp_loss cause, uint64_t n, unsigned width)
{
	bool aligned = width == 0 || width >= ALIGNED_MIN;
	struct kp_buf line;
	struct amount a;

	kp_buf_init(&line, 1024);
	if (aligned) {
		amount(&a, cause, n);
		kp_buf_printf(&line, "  %10s %-8s  %s (%s)", a.number, a.unit,
		    kp_loss_help(cause), kp_loss_name(cause));
	} else {
		kp_buf_str(&line, "  ");
		losses_put(&line, cause, n);
	}
	text_wrap(b, kp_buf_cstr(&line), width, aligned ? PHRASE_AT : 4);
	kp_buf_free(&line);
}

void
losses_text(struct kp_buf *b, const struct kp_losses *l, unsigned width)
{
	bool any = false;

	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (l->n[i] == 0)
			continue;
		if (!any)
			kp_buf_str(b, "losses:\n");
		any = true;
		loss_line(b, i, l->n[i], width);
	}
	if (!any)
		kp_buf_str(b, "losses: none\n");
}

void
losses_json(struct json *j, const struct kp_losses *l)
{
	json_array(j, "losses");
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (l->n[i] == 0)
			continue;
		json_object(j, NULL);
		json_string(j, "cause", kp_loss_name(i));
		json_uint(j, "lost", l->n[i]);
		json_string(j, "unit", kp_loss_unit(i));
		json_string(j, "help", kp_loss_help(i));
		json_end(j);
	}
	json_end(j);
}

void
losses_cover_text(struct kp_buf *b, const char *title,
    const struct kp_query_sum *cover, unsigned width)
{
	struct kp_buf line;

	if (cover->windows == 0) {
		text_wrap(b, "losses: not known, its window is no longer kept",
		    width, 2);
		return;
	}
	kp_buf_init(&line, 256);
	kp_buf_str(&line, title);
	timefmt_put_range(&line, cover->start, cover->end);
	text_wrap(b, kp_buf_cstr(&line), width, 2);
	kp_buf_free(&line);
	losses_text(b, &cover->losses, width);
}

void
losses_cover_json(struct json *j, const struct kp_query_sum *cover)
{
	json_object(j, "windows");
	json_uint(j, "n", cover->windows);
	json_time(j, "start", cover->start);
	json_time(j, "end", cover->end);
	losses_json(j, &cover->losses);
	json_end(j);
}

/* ---- runs and events ---- */

const char *
run_state_text(const struct kp_query_run *r)
{
	static const char *const names[] = {
		[KP_RUN_RUNNING] = "no end noted",
		[KP_RUN_CLEAN] = "ended well",
		[KP_RUN_UNCLEAN] = "did not end well",
	};

	return r->failed[0] != '\0' ? "failed to start" : names[r->state];
}

void
runs_json(struct json *j, const struct kp_query_runs *runs)
{
	json_array(j, "runs");
	for (size_t i = 0; i < runs->n; i++) {
		json_object(j, NULL);
		json_int(j, "run", runs->v[i].id);
		json_time(j, "started", runs->v[i].started);
		json_time(j, "ended", runs->v[i].ended);
		json_string(j, "state", run_state_text(&runs->v[i]));
		if (runs->v[i].failed[0] != '\0')
			json_string(j, "failed", runs->v[i].failed);
		else
			json_null(j, "failed");
		json_string(j, "version", runs->v[i].version);
		json_number(j, "interval_s", (double)runs->v[i].interval /
		    (double)KP_NS_PER_S);
		json_end(j);
	}
	json_end(j);
}

void
events_json(struct json *j, const struct kp_query_events *events)
{
	const struct kp_query_event *e;

	json_array(j, "events");
	for (size_t i = 0; i < events->n; i++) {
		e = &events->v[i];
		json_object(j, NULL);
		json_time(j, "at", e->at);
		json_int(j, "run", e->run);
		json_string(j, "node", e->node);
		json_string(j, "kind", e->kind);
		json_string(j, "text", e->text);
		json_end(j);
	}
	json_end(j);
}
