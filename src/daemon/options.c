/* options.c - kprofd's table of options, and what must go together. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/config.h"
#include "kprofd/dur.h"
#include "kprofd/nodes.h"
#include "daemon/options.h"
#include "target/probe_file.h"

#define MAX_DB_DEFAULT "1G"

struct option {
	const char *name, *arg, *help;
	bool (*set)(struct options *o, const char *v);
};

static bool
set_target(struct options *o, const char *v)
{
	if (o->ntargets == TARGETS_MAX || !kp_node_name_ok(v, strlen(v)))
		return false;
	for (unsigned i = 0; i < o->ntargets; i++)
		if (strcmp(o->targets[i], v) == 0)
			return true;
	o->targets[o->ntargets++] = v;
	return true;
}

static bool
set_target_file(struct options *o, const char *v)
{
	o->target_file = v;
	return v[0] != '\0';
}

static bool
set_cluster(struct options *o, const char *v)
{
	o->seed = v;
	return kp_node_name_ok(v, strlen(v));
}

static bool
set_match(struct options *o, const char *v)
{
	if (o->nmatches == MATCHES_MAX || v[0] == '\0')
		return false;
	o->matches[o->nmatches++] = v;
	return true;
}

static bool
set_forget(struct options *o, const char *v)
{
	return kp_dur_parse(v, &o->forget) && o->forget >= KP_NS_PER_S;
}

static bool
set_tiers(struct options *o, const char *v)
{
	o->tiers = v;
	return true;
}

static bool
set_db(struct options *o, const char *v)
{
	o->db = v;
	return v[0] != '\0';
}

static bool
set_interval(struct options *o, const char *v)
{
	return kp_dur_parse(v, &o->interval) && o->interval >= KP_NS_PER_S &&
	    o->interval <= 3600 * KP_NS_PER_S;
}

static bool
set_retain(struct options *o, const char *v)
{
	return kp_retain_parse(v, &o->retain);
}

static bool
set_max_db_size(struct options *o, const char *v)
{
	return kp_retain_bytes(v, &o->max_db);
}

static bool
set_name(struct options *o, const char *v)
{
	size_t n = strcspn(v, "@");

	o->name = v;
	return kp_node_alive_ok(v, n) && (v[n] == '\0' ||
	    kp_node_name_ok(v, strlen(v)));
}

static bool
set_cookie_file(struct options *o, const char *v)
{
	o->cookie_file = v;
	return v[0] != '\0';
}

static bool
set_probe(struct options *o, const char *v)
{
	static const char *const names[] = { "relay", "native", "auto" };

	for (unsigned i = 0; i < 3; i++) {
		o->probe = (enum agent_probe)i;
		if (strcmp(v, names[i]) == 0)
			return true;
	}
	return false;
}

static bool
set_probe_library(struct options *o, const char *v)
{
	o->probe_library = v;
	return v[0] == '/';
}

static bool
set_control(struct options *o, const char *v)
{
	o->control = v;
	return v[0] != '\0';
}

static bool
set_dump_file(struct options *o, const char *v)
{
	size_t n = strlen(v);

	o->dump_file = v;
	o->dump_json = n > 5 && strcmp(v + n - 5, ".json") == 0;
	if (n > 6 && strcmp(v + n - 6, ".jsonl") == 0)
		o->dump_json = true;
	return n > 0;
}

static bool
set_print_calls(struct options *o, const char *v)
{
	(void)v;
	o->print_calls = true;
	return true;
}

static bool
set_requests(struct options *o, const char *v)
{
	char *end;

	errno = 0;
	o->requests = strtoull(v, &end, 10);
	return errno == 0 && v[0] >= '1' && v[0] <= '9' && *end == '\0';
}

static bool
set_duration(struct options *o, const char *v)
{
	return kp_dur_parse(v, &o->duration) && o->duration > 0;
}

static bool
set_check(struct options *o, const char *v)
{
	(void)v;
	o->check = true;
	return true;
}

static bool
set_verbose(struct options *o, const char *v)
{
	(void)v;
	o->verbose = true;
	return true;
}

static bool
set_log(struct options *o, const char *v)
{
	o->log_json = strcmp(v, "json") == 0;
	return o->log_json || strcmp(v, "text") == 0;
}

static bool
set_log_file(struct options *o, const char *v)
{
	o->log_file = v;
	return v[0] != '\0';
}

static bool
set_http(struct options *o, const char *v)
{
	o->http = v;
	return strrchr(v, ':') != NULL;
}

static bool
set_http_token_file(struct options *o, const char *v)
{
	o->http_token_file = v;
	return v[0] != '\0';
}

static bool
set_otlp(struct options *o, const char *v)
{
	o->otlp = v;
	return strncmp(v, "http://", 7) == 0 || strncmp(v, "https://", 8) == 0;
}

static bool
set_otlp_header_file(struct options *o, const char *v)
{
	o->otlp_header_file = v;
	return v[0] != '\0';
}

static const struct option options[] = {
	{ "target", "NODE", "node to profile: app@host; may be given more than "
	    "once", set_target },
	{ "target-file", "FILE", "nodes to profile, one a line; SIGHUP reads "
	    "it anew", set_target_file },
	{ "cluster", "NODE", "profile nodes of this one's cluster, as they "
	    "come and go", set_cluster },
	{ "match", "GLOB", "with -cluster: those of this name, 'app@*'; may be "
	    "given more than once", set_match },
	{ "forget", "T", "with -cluster: a node that has left is tried for so "
	    "long (60s)", set_forget },
	{ "tiers", "FILE", "what to measure: tiers.conf(5); SIGHUP reads it "
	    "anew", set_tiers },
	{ "db", "FILE", "SQLite database to write (kprofd.db)", set_db },
	{ "interval", "T", "length of a window, 1s to 1h (10s)", set_interval },
	{ "retain", "LIST", "windows of which length are kept for how long ("
	    KP_RETAIN_DEFAULT ")", set_retain },
	{ "max-db-size", "SIZE", "keep all for a shorter time when the "
	    "database would be larger; 0: never (" MAX_DB_DEFAULT ")",
	    set_max_db_size },
	{ "name", "NAME", "our node name, of letters, digits, _ and -; @HOST "
	    "may follow (the first free of kprofd1..4)",
	    set_name },
	{ "cookie-file", "FILE", "the cookie ($KPROFD_COOKIE_FILE, "
	    "~/.erlang.cookie)", set_cookie_file },
	{ "probe", "KIND", "how events leave the target: relay, native (code of "
	    "ours in it), or auto, which takes native where it can (relay)",
	    set_probe },
	{ "probe-library", "FILE", "where targets find the native probe's "
	    "library (kprof_probe.so beside kprofd or in ../lib/kprofd)",
	    set_probe_library },
	{ "control", "SOCKET", "control socket (the database's name + .sock)",
	    set_control },
	{ "http", "ADDR:PORT", "serve the dashboard and /metrics: "
	    "127.0.0.1:4711 (off)",
	    set_http },
	{ "http-token-file", "FILE", "with -http: whoever asks needs this "
	    "token; then ADDR may be any", set_http_token_file },
	{ "otlp", "URL", "send slow requests and figures to an OpenTelemetry "
	    "collector: http://127.0.0.1:4318 (off)", set_otlp },
	{ "otlp-header-file", "FILE", "with -otlp: send this header, too: "
	    "'Authorization: Bearer ...'", set_otlp_header_file },
	{ "dump-file", "FILE", "append the table every interval; JSON lines "
	    "if it ends in .json or .jsonl", set_dump_file },
	{ "print-calls", NULL, "print calls as requests close, 100 a second "
	    "at most", set_print_calls },
	{ "requests", "N", "end after N requests", set_requests },
	{ "duration", "T", "end after this time: 30s, 5m", set_duration },
	{ "check", NULL, "check tiers.conf; with -target also against it, "
	    "arming nothing", set_check },
	{ "log", "FORMAT", "what it says as text or as json, an object a line "
	    "(text)", set_log },
	{ "log-file", "FILE", "say it there, not on stderr; SIGHUP opens the "
	    "file anew", set_log_file },
	{ "verbose", NULL, "say more", set_verbose },
};
#define NOPTIONS (sizeof(options) / sizeof(options[0]))

static void
help(void)
{
	char left[64];

	printf("usage: kprofd -target NODE -tiers FILE [options]\n"
	    "Profiles the requests of live Erlang or Elixir nodes.\n\n");
	for (size_t i = 0; i < NOPTIONS; i++) {
		snprintf(left, sizeof(left), "-%s %s", options[i].name,
		    options[i].arg != NULL ? options[i].arg : "");
		printf("  %-20s %s\n", left, options[i].help);
	}
	printf("  %-20s %s\n  %-20s %s\n", "-version", "print the version",
	    "-h", "print this");
	printf("\nexample: kprofd -target app@host -tiers tiers.conf "
	    "-duration 1m && kprof report\n");
}

static int __attribute__((format(printf, 1, 2)))
usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "kprofd: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (kprofd -h lists the options)\n");
	return 2;
}

static const struct option *
option_find(const char *name)
{
	for (size_t i = 0; i < NOPTIONS; i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

static int
unknown(const char *name)
{
	const char *best = NULL;
	unsigned d, best_d = 4;

	for (size_t i = 0; i < NOPTIONS; i++) {
		d = kp_name_distance(name, options[i].name, 3);
		/* three edits turn any short name into any other */
		if (d < best_d && 2 * d <= strlen(name)) {
			best_d = d;
			best = options[i].name;
		}
	}
	if (best == NULL)
		return usage("unknown option '-%s'", name);
	return usage("unknown option '-%s': did you mean '-%s'?", name, best);
}

static int
finish(struct options *o)
{
	if (o->probe_library == NULL)
		o->probe_library = probe_file(o->library_path,
		    sizeof(o->library_path), "kprof_probe.so");
	if (o->tiers == NULL)
		return usage("no tiers.conf given: -tiers FILE is needed");
	if (o->ntargets == 0 && o->target_file == NULL && o->seed == NULL &&
	    !o->check)
		return usage("no target given: -target NODE is needed (or "
		    "-target-file, or -cluster)");
	if (o->seed != NULL && o->nmatches == 0)
		return usage("-cluster needs -match GLOB: which of its nodes? "
		    "('*': all)");
	if (o->seed == NULL && o->nmatches > 0)
		return usage("-match goes with -cluster NODE");
	if (o->http_token_file != NULL && o->http == NULL)
		return usage("-http-token-file goes with -http ADDR:PORT");
	if (o->otlp_header_file != NULL && o->otlp == NULL)
		return usage("-otlp-header-file goes with -otlp URL");
	snprintf(o->control_path, sizeof(o->control_path), "%s%s",
	    o->control != NULL ? o->control : o->db,
	    o->control != NULL ? "" : ".sock");
	return 0;
}

int
options_parse(struct options *o, int argc, char **argv)
{
	const struct option *op;
	const char *name, *v;

	*o = (struct options){ .db = "kprofd.db",
		.interval = 10 * KP_NS_PER_S, .forget = 60 * KP_NS_PER_S };
	kp_retain_parse(KP_RETAIN_DEFAULT, &o->retain);
	kp_retain_bytes(MAX_DB_DEFAULT, &o->max_db);
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			return usage("unexpected argument '%s'", argv[i]);
		name = argv[i] + (argv[i][1] == '-' ? 2 : 1);
		if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0) {
			help();
			return 1;
		}
		if (strcmp(name, "version") == 0) {
			printf("kprofd %s\n", KP_VERSION);
			return 1;
		}
		op = option_find(name);
		if (op == NULL)
			return unknown(name);
		v = op->arg != NULL ? argv[++i] : "";
		if (v == NULL)
			return usage("option '-%s' needs a value", name);
		if (!op->set(o, v))
			return usage("bad value '%s' for -%s %s: %s", v, name,
			    op->arg != NULL ? op->arg : "", op->help);
	}
	return finish(o);
}
