/*
 * cmd_check.c - kprof check FILE: checks a tiers.conf, alone or, by kprofd -check,
 * against a node.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "config/tiers_file.h"
#include "conn/reach.h"
#include "text/file_why.h"
#include "text/json.h"

static void
put_json(struct kp_buf *b, const char *file, const struct kp_conf *c,
    const struct kp_diags *diags)
{
	char text[64];
	struct json j;

	json_open(&j, b);
	json_string(&j, "file", file);
	json_bool(&j, "ok", c != NULL);
	json_uint(&j, "errors", diags->errors);
	json_array(&j, "diags");
	for (size_t i = 0; i < diags->n; i++) {
		json_object(&j, NULL);
		json_uint(&j, "line", diags->v[i].pos.line);
		json_uint(&j, "col", diags->v[i].pos.col);
		json_string(&j, "kind",
		    diags->v[i].warning ? "warning" : "error");
		json_string(&j, "text", diags->v[i].text);
		json_end(&j);
	}
	json_end(&j);
	if (c != NULL) {
		json_array(&j, "tiers");
		for (size_t i = 0; i < c->ntiers; i++)
			json_string(&j, NULL, c->tiers[i].name);
		json_end(&j);
		json_uint(&j, "functions", kp_conf_functions(c));
		json_uint(&j, "entries", c->nentries);
		json_string(&j, "sampling",
		    tiers_file_sampling(text, sizeof(text), &c->sampling));
	}
	json_close(&j);
}

static int
check(const char *file, const char *src, size_t n, bool json)
{
	struct kp_conf *conf = NULL;
	struct kp_diags diags;
	struct kp_buf b;
	enum kp_err err;
	int st;

	err = kp_conf_parse(&conf, src, n, &diags);
	kp_buf_init(&b, OUTPUT_MAX);
	if (!json)
		diag_print(stderr, file, src, n, &diags);
	if (json)
		put_json(&b, file, err == KP_OK ? conf : NULL, &diags);
	else if (err == KP_OK)
		tiers_file_summary(&b, file, conf);
	else if (diags.n == 0)
		say("cannot check '%s': %s", file, kp_err_str(err));
	st = show(&b);
	kp_diags_free(&diags);
	if (err != KP_OK)
		return EXIT_FAILED;
	kp_conf_free(conf);
	return st;
}

/* ---- against a node ---- */

struct node_args {
	struct opt_list targets;
	const char *control, *duration, *library;
	int probe;		/* index of the choices; -1: not given */
	bool send, explain, values, json;
	struct reach reach;
};

/* kprofd does it, which attaches to nodes: becomes kprofd -check. */
static int
check_node(const struct node_args *a, const char *file)
{
	const char *argv[20 + 2 * OPT_LIST_MAX + REACH_ARGS_MAX] = { "kprofd",
		"-check", "-tiers", file };
	static const char *const probes[] = { "relay", "native", "auto" };
	const char *const texts[][2] = {
		{ "-control", a->control },
		{ "-duration", a->duration },
		{ "-probe", a->probe >= 0 ? probes[a->probe] : NULL },
		{ "-probe-library", a->library },
	};
	struct reach_args reach;
	size_t n = 4;
	char path[4096];

	for (size_t i = 0; i < a->targets.n; i++) {
		argv[n++] = "-target";
		argv[n++] = a->targets.v[i];
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i][1] != NULL) {
			argv[n++] = texts[i][0];
			argv[n++] = texts[i][1];
		}
	if (a->send)
		argv[n++] = "-probe-send";
	if (a->explain)
		argv[n++] = "-explain";
	if (a->values)
		argv[n++] = "-values";
	if (a->json) {
		argv[n++] = "-log";
		argv[n++] = "json";
	}
	reach_args(&reach, &a->reach);
	memcpy(argv + n, reach.v, reach.n * sizeof(*argv));
	fflush(NULL);
	execvp(self_program(path, sizeof(path), "kprofd"),
	    (char **)(uintptr_t)argv);
	say("cannot run kprofd, which checks a file against a node: %s",
	    strerror(errno));
	return EXIT_FAILED;
}

int
cmd_check(const struct cmd *cmd, int argc, char **argv)
{
	struct node_args a = { .probe = -1 };
	const struct opt opts[] = {
		{ "json", NULL, "print JSON; against a node the messages are JSON, "
		    "as with kprofd -log", opt_flag, &a.json, NULL },
		OPT_GROUP("Against a node"),
		{ "target", "NODE", "count calls there, and trace some requests: "
		    "which functions exist, how often each is called, and what "
		    "profiling costs; may be given more than once",
		    opt_node_list, &a.targets, NULL },
		{ "for", "TIME", "count calls for this time (2s)", opt_text,
		    &a.duration, NULL },
		{ "explain", NULL, "print an example of a call that no clause of "
		    "tiers.conf names, types only", opt_flag, &a.explain,
		    NULL },
		{ "values", NULL, "with -explain: small values, too", opt_flag,
		    &a.values, NULL },
		{ "control", "SOCKET", "have the kprofd there check it, on the "
		    "nodes that it profiles: kprofd.db.sock", opt_text,
		    &a.control, NULL },
		{ "probe", "KIND", "how events leave the node (kprofd(8))",
		    opt_choice, &a.probe, "relay,native,auto" },
		{ "probe-library", "FILE", "where the node finds the native "
		    "probe's library (kprofd(8))", opt_text, &a.library, NULL },
		{ "probe-send", NULL, "send that library to nodes that do not find "
		    "it", opt_flag, &a.send, NULL },
		REACH_OPTIONS_OF(a.reach),
	};
	char why[300], *src;
	const char *file;
	bool node;
	size_t n;
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, &file);
	if (st != OPTS_GO_ON)
		return st;
	node = a.targets.n > 0 || a.control != NULL;
	if (!node && (a.duration != NULL || a.explain || a.values ||
	    a.probe >= 0 || a.library != NULL || a.send))
		return opts_wrong(cmd, "-for, -explain, -values, -probe, "
		    "-probe-library and -probe-send go with -target NODE");
	if (!node && reach_given(&a.reach) != NULL)
		return opts_wrong(cmd, "-%s goes with -target NODE",
		    reach_given(&a.reach));
	if (node)
		return check_node(&a, file);
	src = tiers_file_read(file, &n, why, sizeof(why));
	if (src == NULL) {
		say("%s", why);
		return EXIT_FAILED;
	}
	st = check(file, src, n, a.json);
	free(src);
	return st;
}
