/*
 * daemon_routes.c - a table of routes with the control command for each, and
 * the callbacks that make a reply of its answer.
 */
#include <stdio.h>
#include <string.h>

#include "daemon_routes.h"
#include "kprofd/nodes.h"
#include "reply.h"
#include "text/json.h"

/* JSON as it came; words of another kind as a text in an object. */
static void
on_relayed(void *ctx, int status, const char *text, size_t n)
{
	struct evhttp_request *req = ctx;
	struct json j;
	struct kp_buf b;

	if (status == RELAY_NONE)
		status = 503;
	if (status == 200 && n > 0 && text[0] == '{') {
		reply(req, status, text, n);
		return;
	}
	kp_buf_init(&b, 16 * CTL_BYTES_MAX);
	json_begin(&j, &b);
	json_object(&j, NULL);
	json_string_n(&j, status == 200 ? "done" : "error", text,
	    n > 0 && text[n - 1] == '\n' ? n - 1 : n);
	json_end(&j);
	kp_buf_u8(&b, '\n');
	reply(req, status, b.p, b.len);
	kp_buf_free(&b);
}

/* That none runs is what there is to say of it, and no failure. */
static void
on_status(void *ctx, int status, const char *text, size_t n)
{
	static const char none[] = "{\"running\":false}\n";

	if (status == RELAY_NONE)
		reply(ctx, 200, none, strlen(none));
	else
		on_relayed(ctx, status, text, n);
}

static const struct daemon_route errands[] = {
	{ "status", "status json", on_status, false, PARAM_NODE },
	{ "flight", "flight json", on_status, false, PARAM_NODE },
	{ "pause", "pause", on_relayed, true, PARAM_NODE },
	{ "resume", "resume", on_relayed, true, PARAM_NODE },
	{ "dump", "dump", on_relayed, true, 0 },
};
#define NERRANDS (sizeof(errands) / sizeof(errands[0]))

const struct daemon_route *
daemon_route_find(const char *name)
{
	for (size_t i = 0; i < NERRANDS; i++)
		if (strcmp(errands[i].name, name) == 0)
			return &errands[i];
	return NULL;
}

void
daemon_route_run(const struct daemon_route *e, struct ctl_async *relays,
    struct evhttp_request *req, const struct web_params *p)
{
	char line[KP_NODE_NAME_MAX + 64];
	const char *node = p->range.node;

	if (node != NULL && (strlen(node) > KP_NODE_NAME_MAX ||
	    strpbrk(node, " \t\r\n") != NULL)) {
		reply_error(req, 400, "'node' is one name or glob here");
		return;
	}
	snprintf(line, sizeof(line), "%s%s%s", e->line,
	    node != NULL ? " node=" : "", node != NULL ? node : "");
	ctl_ask(relays, line, e->done, req);
}
