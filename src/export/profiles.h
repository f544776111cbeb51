/*
 * profiles.h - writes the stacks of stored windows as profiles: for Pyroscope the JSON of
 * its Push call, whose profiles are pprof's, for OpenTelemetry those of pprof.h.
 *
 * For Pyroscope a series is a node.  Its name is `wall`, its service that of otlp_json.h,
 * which also has OpenTelemetry's resource.
 *
 * Source: Grafana Pyroscope, push.v1.PusherService and types.v1.LabelPair; Connect
 * protocol, unary requests in JSON.
 */
#ifndef KPROFD_EXPORT_PROFILES_H
#define KPROFD_EXPORT_PROFILES_H

#include <stdbool.h>
#include <stddef.h>

#include "export/otlp_json.h"
#include "store/query.h"
#include "store/retain.h"

#define PROFILES_PYROSCOPE "/push.v1.PusherService/Push"
/* Pyroscope refuses what is an hour old, unless it is told otherwise. */
#define PROFILES_BEHIND (50 * 60 * KP_NS_PER_S)
/* The shortest that windows may be kept as they are, for what cannot be sent at once. */
#define PROFILES_KEPT (600 * KP_NS_PER_S)

struct profiles {
	struct otlp_about about;
	bool otlp;		/* else for Pyroscope */
	kp_wall_ns since;	/* windows that began before are an earlier run's */
	/* The store joins windows that are shorter: they are sent when all are there. */
	kp_dur_ns whole;
	kp_dur_ns behind;	/* those that began longer ago are given up */
	bool ending;		/* what is there is sent, also if it is not whole */
	struct sent_node *v;	/* private, as the rest; owned */
	size_t n, turn;
};

/*
 * about: copied.  since: of the first window.  retain: with steps of PROFILES_KEPT at
 * least, or none.
 */
void profiles_init(struct profiles *p, bool otlp, const struct otlp_about *about,
    kp_wall_ns since, kp_dur_ns interval, const struct kp_retain *retain);
void profiles_free(struct profiles *p);
/*
 * Writes for each node a profile of windows that were not sent yet, of a minute or one
 * whole window, and returns of how many nodes there are some.  It may leave some for the
 * next time, as after an error of the database, or all but one for OpenTelemetry.  *lost
 * also gets the time of windows that are given up.  Call profiles_sent() once these were
 * taken, or refused for good.
 */
size_t profiles_put(struct kp_buf *b, struct kp_query *q, struct profiles *p,
    kp_wall_ns now, kp_dur_ns *lost);
void profiles_sent(struct profiles *p);
/* Are some windows of what was written last to be given up by now? */
bool profiles_stale(const struct profiles *p, kp_wall_ns now);
/*
 * How long the windows are that were not sent; -1: they cannot be read.  Call it now and
 * then while profiles_put() is not called: nodes may come and go meanwhile.  *lost as there.
 */
kp_dur_ns profiles_left(struct kp_query *q, struct profiles *p, kp_wall_ns now,
    kp_dur_ns *lost);

#endif
