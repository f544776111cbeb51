/*
 * options.h - kprofd's command line.
 */
#ifndef KPROFD_DAEMON_OPTIONS_H
#define KPROFD_DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"
#include "store/retain.h"
#include "agent/agent.h"
#include "export/push.h"
#include "web/web.h"

#define DB_NAME "kprofd.db"	/* without -db */
#define TARGETS_MAX 64
#define MATCHES_MAX 16

struct options {
	const char *targets[TARGETS_MAX];
	unsigned ntargets;
	const char *target_file;
	bool wait;			/* none needs to be there at the start */
	const char *seed;		/* of a cluster; NULL: none */
	const char *matches[MATCHES_MAX];
	unsigned nmatches;
	kp_dur_ns forget;		/* how long to try a node that left */
	struct reach reach;
	const char *tiers, *db, *control, *dump_file,
	    *log_file, *push_url[PUSH_TO], *push_header_file[PUSH_TO],
	    *otlp_attributes;
	struct web_opts web;		/* addr: NULL: no server */
	enum agent_probe probe;
	const char *probe_library;
	bool probe_send;		/* ours, where a target has none */
	kp_dur_ns interval, duration;	/* duration 0: no end */
	uint64_t requests;		/* 0: no limit */
	struct kp_retain retain;
	uint64_t max_db;		/* bytes; 0: no limit */
	bool propose;			/* there is no tiers: propose them */
	bool proposed;			/* and start without a question */
	bool library_given;
	bool print_calls, check, json, explain, values, quiet, verbose,
	    dump_json;
	int log_json;			/* 0: text, 1: JSON */
	char control_path[4096];
	char library_path[4096 + 64];	/* ours: probe_library's default */
};

/*
 * 0: go on; 1: done (-h, -version); 2: wrong usage, printed on stderr.  o
 * borrows argv's strings.
 */
int options_parse(struct options *o, int argc, char **argv);
/* True: nodes are named to which kprofd attaches. */
bool options_targets(const struct options *o);

#endif
