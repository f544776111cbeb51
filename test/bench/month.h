/*
 * month.h - a database such as a month of a large cluster leaves: 10 nodes,
 * 20 tiers, 50 identities, stacks and memory, in windows as the default -retain keeps
 * them.
 */
#ifndef MONTH_H
#define MONTH_H

#include "kprofd/clock.h"
#include "store/store.h"

enum {
	MONTH_NODES = 10, MONTH_TIERS = 20, MONTH_IDENTS = 50, MONTH_DAYS = 30,
	MONTH_CELLS = (MONTH_TIERS + 1) * (MONTH_IDENTS + 1)
};

#define MONTH_END (INT64_C(1700352000) * KP_NS_PER_S)	/* a midnight, UTC */
#define MONTH_HOUR (3600 * KP_NS_PER_S)

/*
 * What every age of -retain is cut to, in percent, as -max-db-size does it: so
 * many that hours are kept for the 30 days.  100: with -max-db-size 0.
 */
#define MONTH_PERCENT 8

/* Ends the program where it cannot. */
void month_make(const char *path, int percent);
/* Options to open it with, in order to go on writing. */
struct kp_store_opts month_opts(const char *path);
/* The window of a node that begins then, for kp_store_window(). */
struct kp_window *month_window(int node, kp_wall_ns start);
const char *month_node(int node);
/* The tiers.conf of its run, for objectives. */
#define MONTH_CONF "{entry, {web, handle, 2}}.\n{tiers, [{tier01, {web, handle, 2}}, " \
    "{tier07, {db, query, 2}}]}.\n" \
    "{slo, [{\"GET /things/7\", 1, 99}, {tier07, 1, 99.9}]}.\n"

#endif
