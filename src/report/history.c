/*
 * history.c - writes arrays of runs and of events as JSON, and the words for
 * how a run ended.
 */
#include "history.h"

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
