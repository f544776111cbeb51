/* options.c - kprofd's table of options, and which need each other. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/options.h"
#include "text/timefmt.h"
#include "kprofd/nodes.h"
#include "daemon/options.h"
#include "conn/reach.h"
#include "agent/probe_file.h"
#include "export/otlp_json.h"
#include "export/profiles.h"

#define MAX_DB_DEFAULT "1G"
/* How long a check counts calls: those of an entry that is called once a second. */
#define CHECK_TIME (2 * KP_NS_PER_S)
#define CHECK_TIME_MIN (KP_NS_PER_S / 10)
#define CHECK_TIME_MAX (600 * KP_NS_PER_S)

/* For converters: where the value is not good, notes what it should be. */
static bool
expect(struct opt_parser *p, bool good, const char *what)
{
	return good || OPT_BAD(p, "-%s '%s': not %s", p->at->name, p->value,
	    what);
}

/* It is there already, perhaps without the port. */
static bool
same_target(struct opt_parser *p, const char **there)
{
	struct kp_node_at old, new;

	if (kp_node_split(*there, strlen(*there), &old) != NULL ||
	    kp_node_split(p->value, strlen(p->value), &new) != NULL ||
	    new.port == 0 || new.port == old.port)
		return true;
	if (old.port != 0)
		return OPT_BAD(p, "-target '%s' and '%s': a node has one port",
		    *there, p->value);
	*there = p->value;
	return true;
}

static bool
set_target(struct opt_parser *p)
{
	struct options *o = p->at->to;

	p->adds = true;
	if (!opt_is_node(p))
		return false;
	for (unsigned i = 0; i < o->ntargets; i++)
		if (kp_node_same(o->targets[i], p->value))
			return same_target(p, &o->targets[i]);
	if (o->ntargets == TARGETS_MAX)
		return OPT_BAD(p, "more than %d times -target", TARGETS_MAX);
	o->targets[o->ntargets++] = p->value;
	return true;
}

static bool
set_match(struct opt_parser *p)
{
	struct options *o = p->at->to;

	p->adds = true;
	if (o->nmatches == MATCHES_MAX)
		return OPT_BAD(p, "more than %d times -match", MATCHES_MAX);
	o->matches[o->nmatches++] = p->value;
	return expect(p, p->value[0] != '\0', "a GLOB");
}

static bool
expect_dur(struct opt_parser *p, kp_dur_ns least, kp_dur_ns most,
    const char *what)
{
	kp_dur_ns *to = p->at->to;

	return expect(p, kp_dur_parse(p->value, to) && *to >= least &&
	    *to <= most, what);
}

static bool
set_duration(struct opt_parser *p)
{
	return expect_dur(p, 1, INT64_MAX, "a time such as 30s or 5m");
}

static bool
set_forget(struct opt_parser *p)
{
	return expect_dur(p, KP_NS_PER_S, INT64_MAX, "a time from 1s on");
}

static bool
set_interval(struct opt_parser *p)
{
	return expect_dur(p, KP_NS_PER_S, 3600 * KP_NS_PER_S,
	    "a time from 1s to 1h");
}

static bool
set_retain(struct opt_parser *p)
{
	return expect(p, kp_retain_parse(p->value, p->at->to),
	    "LENGTH:AGE,... with growing lengths and ages, such as "
	    KP_RETAIN_DEFAULT);
}

static bool
set_bytes(struct opt_parser *p)
{
	return expect(p, kp_retain_bytes(p->value, p->at->to),
	    "0 or a size from 1M on, such as 2G");
}

static bool
set_whole_path(struct opt_parser *p)
{
	return opt_text(p) && expect(p, p->value[0] == '/',
	    "a path that begins with /");
}

static bool
set_requests(struct opt_parser *p)
{
	const char *v = p->value;
	char *end;

	errno = 0;
	*(uint64_t *)p->at->to = strtoull(v, &end, 10);
	return expect(p, errno == 0 && v[0] >= '1' && v[0] <= '9' &&
	    *end == '\0', "a number from 1 on");
}

static bool
set_address(struct opt_parser *p)
{
	const char *colon = strrchr(p->value, ':');
	const char *port = colon != NULL ? colon + 1 : p->value;

	return opt_text(p) && expect(p, *port != '\0' &&
	    port[strspn(port, "0123456789")] == '\0', "PORT or ADDR:PORT, "
	    "such as 4711 or 127.0.0.1:4711");
}

static bool
set_url(struct opt_parser *p)
{
	return opt_text(p) && expect(p, strncmp(p->value, "http://", 7) == 0 ||
	    strncmp(p->value, "https://", 8) == 0,
	    "a URL of http:// or https://");
}

static bool
set_attributes(struct opt_parser *p)
{
	return opt_text(p) && expect(p, otlp_attributes_valid(p->value),
	    "NAME=VALUE,... with %2C for a comma in a value");
}

/* options_parse() fills it. */
static struct options given;

static const struct opt table[] = {
	OPT_GROUP("Most used"),
	{ "target", "NODE", "node to profile: app@host; may be given "
	    "more than once", set_target, &given, NULL },
	{ "tiers", "FILE", "what to measure: tiers.conf(5); SIGHUP "
	    "reads it again", opt_text, &given.tiers, NULL },
	{ "propose", NULL, "without -tiers: profile with what kprof suggest "
	    "proposes, without a question", opt_flag, &given.proposed, NULL },
	{ "duration", "T", "end after this time: 30s, 5m; with -check: "
	    "count calls for this time (2s)", set_duration,
	    &given.duration, NULL },
	{ "db", "FILE", "SQLite database to write (kprofd.db)",
	    opt_text, &given.db, NULL },
	{ "http", "ADDR:PORT", "serve the dashboard and /metrics: "
	    "127.0.0.1:4711 (off)", set_address, &given.web.addr, NULL },
	{ "check", NULL, "check tiers.conf; with -target also against "
	    "that node: which functions are called, how often, and what some "
	    "traced requests show", opt_flag, &given.check, NULL },
	{ "json", NULL, "with -check: print JSON, an object a line", opt_flag,
	    &given.json, NULL },
	{ "explain", NULL, "with -check -target: print an example of a call "
	    "that no clause of tiers.conf names, types only", opt_flag,
	    &given.explain, NULL },
	{ "values", NULL, "with -explain: small values, too", opt_flag,
	    &given.values, NULL },
	OPT_GROUP("Which nodes"),
	{ "target-file", "FILE", "nodes to profile, one a line; SIGHUP "
	    "reads it again", opt_text, &given.target_file, NULL },
	{ "cluster", "NODE", "profile nodes of this one's cluster, as "
	    "they come and go", opt_node, &given.seed, NULL },
	{ "match", "GLOB", "with -cluster: those of this name, "
	    "'app@*'; may be given more than once", set_match, &given, NULL },
	{ "forget", "T", "with -cluster: a node that has left is tried "
	    "for this time (60s)", set_forget, &given.forget, NULL },
	{ "wait", NULL, "go on where no node can be profiled: try again until "
	    "told to end", opt_flag, &given.wait, NULL },
	OPT_GROUP("The connection to a node"),
	REACH_OPTIONS(given.reach),
	{ "probe", "KIND", "how events leave the target: native (a "
	    "library in C, loaded there), relay (Erlang messages), or "
	    "auto: native if it can be loaded (auto)", opt_choice,
	    &given.probe,
	    "relay,native,auto" },
	{ "probe-library", "FILE", "where targets find the native "
	    "probe's library (kprof_probe.so beside kprofd or in "
	    "../lib/kprofd)", set_whole_path, &given.probe_library, NULL },
	{ "probe-send", NULL, "send that library to targets that do not "
	    "find it, for as long as it takes to load it", opt_flag,
	    &given.probe_send, NULL },
	OPT_GROUP("What is written"),
	{ "interval", "T", "length of a window, 1s to 1h (10s)",
	    set_interval, &given.interval, NULL },
	{ "retain", "LIST", "LENGTH:AGE,...: windows of this length "
	    "are kept up to this age (" KP_RETAIN_DEFAULT ")",
	    set_retain, &given.retain, NULL },
	{ "max-db-size", "SIZE", "largest size of the database; all is "
	    "kept for a shorter time then; 0: no limit ("
	    MAX_DB_DEFAULT ")", set_bytes, &given.max_db, NULL },
	{ "dump-file", "FILE", "append the table every interval; JSON "
	    "lines if it ends in .json or .jsonl", opt_text,
	    &given.dump_file, NULL },
	{ "print-calls", NULL, "print calls as requests close, 100 a "
	    "second at most", opt_flag, &given.print_calls, NULL },
	{ "requests", "N", "end after N requests", set_requests,
	    &given.requests, NULL },
	OPT_GROUP("Dashboard, exports, control"),
	WEB_OPTIONS(given.web),
	{ "otlp", "URL", "send slow requests and figures to an "
	    "OpenTelemetry collector: http://127.0.0.1:4318 (off)",
	    set_url, &given.push_url[PUSH_OTLP], NULL },
	{ "otlp-header-file", "FILE", "with -otlp: send this header, "
	    "too: 'Authorization: Bearer ...'", opt_text,
	    &given.push_header_file[PUSH_OTLP], NULL },
	{ "otlp-profiles", "URL", "send sampled stacks to a collector, as "
	    "OpenTelemetry's profiles, which are alpha (off)",
	    set_url, &given.push_url[PUSH_OTLP_PROFILES], NULL },
	{ "otlp-profiles-header-file", "FILE", "with -otlp-profiles: send "
	    "this header, too", opt_text,
	    &given.push_header_file[PUSH_OTLP_PROFILES], NULL },
	{ "otlp-attributes", "LIST", "with these two: of all resources: "
	    "service.name=shop,service.version=1.2", set_attributes,
	    &given.otlp_attributes, NULL },
	{ "pyroscope", "URL", "send sampled stacks to Pyroscope: "
	    "http://127.0.0.1:4040 (off)", set_url,
	    &given.push_url[PUSH_PYROSCOPE], NULL },
	{ "pyroscope-header-file", "FILE", "with -pyroscope: send this "
	    "header, too: 'X-Scope-OrgID: shop'", opt_text,
	    &given.push_header_file[PUSH_PYROSCOPE], NULL },
	{ "control", "SOCKET", "control socket (the database's name + "
	    ".sock); with -check: ask the kprofd there", opt_text,
	    &given.control, NULL },
	OPT_GROUP("Messages"),
	{ "quiet", NULL, "log warnings and errors alone", opt_flag,
	    &given.quiet, NULL },
	{ "verbose", NULL, "log more", opt_flag, &given.verbose, NULL },
	{ "log", "FORMAT", "log as text or as json, an object a line "
	    "(text)", opt_choice, &given.log_json, "text,json" },
	{ "log-file", "FILE", "log to this file, not to stderr; SIGHUP "
	    "opens it again", opt_text, &given.log_file, NULL },
};

_Static_assert(sizeof(table) / sizeof(table[0]) <= OPT_TABLE_MAX,
    "struct opt_parser has no room for it");

static void
help(struct opt_parser *p)
{
	static const struct opt last[] = {
		OPT_GROUP("Help"),
		{ .name = "version", .help = "print the version" },
		{ .name = "h", .help = "print this" },
	};

	opt_help(&p->why, p->table, p->n);
	kp_buf_u8(&p->why, '\n');
	opt_help(&p->why, last, sizeof(last) / sizeof(last[0]));
	printf("usage: kprofd -target NODE [-tiers FILE] [options]\n"
	    "Profiles the requests of live Erlang or Elixir nodes.\n\n%s\n"
	    "example: kprofd -target app@host -tiers tiers.conf "
	    "-duration 20s && kprof report\n", kp_buf_cstr(&p->why));
}

static int __attribute__((format(printf, 1, 2)))
usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "kprofd: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see kprofd -h)\n");
	return 2;
}

bool
options_targets(const struct options *o)
{
	return o->ntargets > 0 || o->target_file != NULL || o->seed != NULL;
}

/* A command line can be checked as it is: what only a profile uses is ignored. */
static int
finish_check(struct options *o)
{
	if (o->explain && (!options_targets(o) || o->control != NULL))
		return usage("-explain goes with -check -target NODE, without "
		    "-control");
	o->wait = false;
	if (o->duration == 0)
		o->duration = CHECK_TIME;
	if (o->duration < CHECK_TIME_MIN || o->duration > CHECK_TIME_MAX)
		return usage("-duration of -check: from 100ms to 10m");
	return 0;
}

/* Was it among the arguments, also if with the value that it has anyway? */
static bool
was_given(const struct opt_parser *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->given[i] && strcmp(p->table[i].name, name) == 0)
			return true;
	return false;
}

static int
finish(struct options *o, const struct opt_parser *p)
{
	const char *dot, *name, *wrong = web_opts_wrong(&o->web);
	bool pushes = false;
	char why[REACH_WHY_MAX];

	if (!reach_finish(&o->reach, why, sizeof(why)))
		return usage("%s", why);
	o->library_given = o->probe_library != NULL;
	probe_file(o->library_path, sizeof(o->library_path),
	    "kprof_probe.so");
	if (o->probe_library == NULL)
		o->probe_library = o->library_path;
	if (o->probe_send && o->probe == AGENT_RELAY)
		return usage("-probe-send goes with -probe native or auto");
	o->propose = o->tiers == NULL && !o->check && o->ntargets == 1 &&
	    o->target_file == NULL && o->seed == NULL &&
	    (o->proposed || (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)));
	if (o->tiers == NULL && !o->propose)
		return usage("no tiers.conf given: -tiers FILE is needed "
		    "(kprof suggest -target NODE proposes one, "
		    "-propose takes that)");
	if (o->tiers != NULL && o->proposed)
		return usage("-propose goes without -tiers");
	if (!options_targets(o) && !o->check)
		return usage("no target given: -target NODE is needed (or "
		    "-target-file, or -cluster)");
	if (o->seed != NULL && o->nmatches == 0)
		return usage("-cluster needs -match GLOB: which of its nodes? "
		    "('*': all)");
	if (o->seed == NULL && o->nmatches > 0)
		return usage("-match goes with -cluster NODE");
	if (o->seed == NULL && was_given(p, "forget"))
		return usage("-forget goes with -cluster NODE: a -target is "
		    "tried again until kprofd ends");
	if (o->explain && !o->check)
		return usage("-explain goes with -check -target NODE");
	if (o->wait && o->propose)
		return usage("-wait goes with -tiers FILE");
	if (o->json && !o->check)
		return usage("-json goes with -check");
	if (o->values && !o->explain)
		return usage("-values goes with -check -explain");
	if (o->quiet && o->verbose)
		return usage("-quiet and -verbose: choose one");
	if (wrong != NULL)
		return usage("%s", wrong);
	for (int to = 0; to < PUSH_TO; to++) {
		name = push_option((enum push_to)to);
		pushes |= o->push_url[to] != NULL;
		if (o->push_url[to] == NULL && o->push_header_file[to] != NULL)
			return usage("%s-header-file goes with %s URL", name, name);
		if (o->push_url[to] != NULL && to != PUSH_OTLP && o->retain.n > 0 &&
		    o->retain.step[0].age < PROFILES_KEPT)
			return usage("%s reads windows as they were measured: -retain has "
			    "to keep them for 10m at least", name);
	}
	if (!pushes && o->otlp_attributes != NULL)
		return usage("-otlp-attributes goes with -otlp, -otlp-profiles or "
		    "-pyroscope URL");
	dot = o->dump_file != NULL ? strrchr(o->dump_file, '.') : NULL;
	o->dump_json = dot != NULL && dot != o->dump_file &&
	    (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0);
	snprintf(o->control_path, sizeof(o->control_path), "%s%s",
	    o->control != NULL ? o->control : o->db,
	    o->control != NULL ? "" : ".sock");
	return o->check ? finish_check(o) : 0;
}

/* Takes the option at argv[*i]; *i moves on to its value.  As options_parse(). */
static int
take(struct opt_parser *p, char **argv, int *i)
{
	if (opt_is(argv[*i], "h") || opt_is(argv[*i], "help") ||
	    strcmp(argv[*i], "help") == 0) {
		help(p);
		return 1;
	}
	if (opt_is(argv[*i], "version")) {
		printf("kprofd %s\n", KP_VERSION);
		return 1;
	}
	if (argv[*i][0] != '-') {
		opt_unexpected(p, argv[*i]);
		if (argv[*i][strspn(argv[*i], "abcdefghijklmnopqrstuvwxyz-")] == '\0')
			kp_buf_str(&p->why, ": a node is given with -target, and commands are those of kprof");
	}
	if (p->why.len > 0 || !opt_take(p, argv, i))
		return usage("%s", kp_buf_cstr(&p->why));
	if (p->why.len > 0)
		fprintf(stderr, "kprofd: %s\n", kp_buf_cstr(&p->why));
	kp_buf_reset(&p->why);
	return 0;
}

int
options_parse(struct options *o, int argc, char **argv)
{
	struct opt_parser p = { .table = table,
		.n = sizeof(table) / sizeof(table[0]),
		.near = { .edits = 3, .share = 2 } };
	int st = 0;

	given = (struct options){ .db = DB_NAME, .probe = AGENT_AUTO,
		.interval = 10 * KP_NS_PER_S, .forget = 60 * KP_NS_PER_S };
	kp_retain_parse(KP_RETAIN_DEFAULT, &given.retain);
	kp_retain_bytes(MAX_DB_DEFAULT, &given.max_db);
	kp_buf_init(&p.why, OPT_WHY_MAX);
	for (int i = 1; i < argc && st == 0; i++)
		st = take(&p, argv, &i);
	kp_buf_free(&p.why);
	*o = given;
	return st != 0 ? st : finish(o, &p);
}
