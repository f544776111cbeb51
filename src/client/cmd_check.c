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
#include "text/text.h"

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
		json_array(&j, "objectives");
		for (size_t i = 0; i < c->nslo; i++) {
			json_object(&j, NULL);
			objective_json(&j, &c->slo[i]);
			json_end(&j);
		}
		json_end(&j);
	}
	json_close(&j);
}

/* ---- alert rules for Prometheus ---- */

/*
 * Of objectives whose budget is for 30 days: 14.4 times as fast burns 2 % of it in an
 * hour, 6 times as fast 5 % in six.  The short time ends the alert soon.
 *
 * Source: Google, "The Site Reliability Workbook", chapter 5.
 */
static const struct burn {
	const char *alert, *severity, *over, *recent;
	double factor;
} burns[] = {
	{ "SloBurnsFast", "critical", "1h", "5m", 14.4 },
	{ "SloBurns", "warning", "6h", "30m", 6 },
};

/* In a string of PromQL. */
static void
put_quoted(struct kp_buf *b, const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			kp_buf_u8(b, '\\');
		kp_buf_u8(b, (uint8_t)*s);
	}
}

/* In a single-quoted text of YAML that is a template of Prometheus, too. */
static void
put_template(struct kp_buf *b, const char *s)
{
	for (; *s != '\0'; s++) {
		if (strncmp(s, "{{", 2) == 0) {
			kp_buf_str(b, "{{ \"{{\" }}");
			s++;
			continue;
		}
		kp_buf_u8(b, (uint8_t)*s);
		if (*s == '\'')
			kp_buf_u8(b, '\'');
	}
}

static void
put_ratio(struct kp_buf *b, const struct kp_objective *o, const char *over)
{
	static const char *const names[] = { "missed", "requests" };

	for (int i = 0; i < 2; i++) {
		kp_buf_printf(b, "%ssum by (objective) (rate(kprof_slo_%s_total{objective=\"",
		    i == 0 ? "" : " / ", names[i]);
		put_quoted(b, o->text);
		kp_buf_printf(b, "\"}[%s]))", over);
	}
}

static void
put_rule(struct kp_buf *b, const struct kp_objective *o, const struct burn *u)
{
	double budget = (100 - o->percent) / 100;

	if (u->factor * budget >= 1) {
		kp_buf_printf(b, "      # no %s: more than all would have to miss it\n",
		    u->alert);
		return;
	}
	kp_buf_printf(b, "      - alert: %s\n        expr: |-\n          ", u->alert);
	put_ratio(b, o, u->over);
	kp_buf_printf(b, " > %g * %.6g\n          and ", u->factor, budget);
	put_ratio(b, o, u->recent);
	kp_buf_printf(b, " > %g * %.6g\n        labels:\n          severity: %s\n"
	    "          objective: '", u->factor, budget, u->severity);
	put_template(b, o->text);
	kp_buf_printf(b, "'\n        annotations:\n          summary: '"
	    "{{ $value | humanizePercentage }} of the last %s missed: ", u->over);
	put_template(b, o->text);
	kp_buf_printf(b, " (%.10g %%); at this rate the budget of 30 days lasts %.2g days "
	    "(kprof report -slo)'\n", o->percent, 30 / u->factor);
}

static void
put_rules(struct kp_buf *b, const char *file, const struct kp_conf *c)
{
	kp_buf_str(b, "# Alerts when an error budget burns too fast, of the objectives in\n# ");
	text_put(b, file);
	kp_buf_str(b, ", by kprof check -rules: make them again when these change.\n\n"
	    "groups:\n  - name: kprofd-slo\n    rules:\n");
	for (size_t i = 0; i < c->nslo; i++) {
		kp_buf_printf(b, "%s      # %.10g %% of ", i > 0 ? "\n" : "",
		    c->slo[i].percent);
		text_put(b, c->slo[i].text);
		kp_buf_u8(b, '\n');
		for (size_t k = 0; k < sizeof(burns) / sizeof(burns[0]); k++)
			put_rule(b, &c->slo[i], &burns[k]);
	}
}

/* ---- the file alone ---- */

static int
check(const char *file, const char *src, size_t n, bool json, bool rules)
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
	else if (err == KP_OK && rules && conf->nslo == 0)
		say("'%s' has no objectives: {slo, [{\"GET /orders\", 200, 99.9}]} sets one",
		    file);
	else if (err == KP_OK && rules)
		put_rules(&b, file, conf);
	else if (err == KP_OK)
		tiers_file_summary(&b, file, conf);
	else if (diags.n == 0)
		say("cannot check '%s': %s", file, kp_err_str(err));
	st = show(&b);
	kp_diags_free(&diags);
	if (err != KP_OK)
		return EXIT_FAILED;
	if (rules && conf->nslo == 0)
		st = EXIT_FAILED;
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
	const char *argv[22 + 2 * OPT_LIST_MAX + REACH_ARGS_MAX] = { "kprofd",
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
		argv[n++] = "-json";
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
	bool rules = false, node;
	const struct opt opts[] = {
		{ "json", NULL, "print JSON; against a node an object on each line, "
		    "and messages as with kprofd -log json", opt_flag, &a.json, NULL },
		{ "rules", NULL, "print alert rules for Prometheus, of the file's "
		    "objectives (slo)", opt_flag, &rules, NULL },
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
	size_t n;
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, &file);
	if (st != OPTS_GO_ON)
		return st;
	node = a.targets.n > 0 || a.control != NULL;
	if (rules && (node || a.json))
		return opts_wrong(cmd, "-rules is of a file alone, and goes without -json");
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
	st = check(file, src, n, a.json, rules);
	free(src);
	return st;
}
