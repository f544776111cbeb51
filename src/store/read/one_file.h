/*
 * one_file.h - the queries of query.h and steps.h, put to one file.  Private to
 * src/store: others ask kp_query_*(), which also take several files (multi.h).
 */
#ifndef KPROFD_STORE_READ_ONE_FILE_H
#define KPROFD_STORE_READ_ONE_FILE_H

#include "read.h"
#include "steps.h"

/* query.c */
enum kp_err file_tiers(struct kp_query *q, struct kp_query_tiers *out);
enum kp_err file_nodes(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_nodes *out);
enum kp_err file_slow(struct kp_query *q, const struct kp_query_range *r,
    enum kp_slow_by by, const char *tier, size_t skip, size_t limit,
    struct kp_query_requests *out);
enum kp_err file_tree(struct kp_query *q, int64_t id,
    struct kp_query_tree *out);
enum kp_err file_events(struct kp_query *q, const struct kp_query_range *r,
    size_t limit, struct kp_query_events *out);
enum kp_err file_runs(struct kp_query *q, size_t limit,
    struct kp_query_runs *out);
enum kp_err file_span(struct kp_query *q, kp_wall_ns *first,
    kp_wall_ns *last);

/* sum.c */
enum kp_err file_sum(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out);
enum kp_err file_cover(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out);
enum kp_err file_around(struct kp_query *q, const struct kp_query_request *rq,
    struct kp_query_range *out);

/* steps.c */
enum kp_err file_series(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out);
/* The steps of a range that is clipped, s->step and s->tiers being known. */
enum kp_err series_make_steps(struct kp_series *s,
    const struct kp_query_range *r, bool cells);

/* message_waits.c: of t->request. */
enum kp_err query_tree_waits(struct kp_query *q, struct kp_query_tree *t);

#endif
