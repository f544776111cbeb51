/*
 * multi.h - several databases that are read as one.  Private to src/store.
 *
 * A kp_query of several files has no connection but parts, one for each file;
 * every query of query.h and steps.h is put to each part (one_file.h), and the
 * answers are joined here.  Parts have names in common, but not row ids: those belong to
 * one file.
 *
 * Ids of requests and runs are those of their own file, plus MULTI_STRIDE times
 * the file's number: ids of the first file do not change, and those of the
 * others do not collide with them.
 */
#ifndef KPROFD_STORE_READ_MULTI_H
#define KPROFD_STORE_READ_MULTI_H

#include "read.h"
#include "steps.h"

#define MULTI_STRIDE INT64_C(1000000000000)

/* Takes the error and its words from a part. */
enum kp_err set_fail(struct kp_query *set, const struct kp_query *part,
    enum kp_err err);
/*
 * Each window of the range in order of start, whichever part it is in.
 */
enum kp_err multi_windows(struct kp_query *set, const struct kp_query_range *r,
    void (*fn)(void *ctx, kp_wall_ns start, kp_wall_ns end), void *ctx);
/* Cells of several nodes add up by their shares: decides it for all parts. */
enum kp_err multi_shares(struct kp_query *set, const struct kp_query_range *r);

enum kp_err set_tiers(struct kp_query *set, struct kp_query_tiers *out);
enum kp_err set_nodes(struct kp_query *set, const struct kp_query_range *r,
    struct kp_query_nodes *out);
enum kp_err set_span(struct kp_query *set, kp_wall_ns *first,
    kp_wall_ns *last);
enum kp_err set_slow(struct kp_query *set, const struct kp_query_range *r,
    enum kp_slow_by by, const char *tier, size_t skip, size_t limit,
    struct kp_query_requests *out);
enum kp_err set_tree(struct kp_query *set, int64_t id,
    struct kp_query_tree *out);
enum kp_err set_around(struct kp_query *set,
    const struct kp_query_request *rq, struct kp_query_range *out);
enum kp_err set_events(struct kp_query *set, const struct kp_query_range *r,
    size_t limit, struct kp_query_events *out);
enum kp_err set_runs(struct kp_query *set, size_t limit,
    struct kp_query_runs *out);

/*
 * steps.c: the steps of a range that is clipped, s->step and s->tiers being
 * known.
 */
enum kp_err series_make_steps(struct kp_series *s,
    const struct kp_query_range *r, bool cells);

/* multi_sum.c: what adds windows up.  cells: are wanted. */
enum kp_err set_sum(struct kp_query *set, const struct kp_query_range *r,
    bool cells, struct kp_query_sum *out);
/* multi_steps.c */
enum kp_err multi_series(struct kp_query *set, const struct kp_query_range *r,
    const struct kp_series_want *want, struct kp_series *out);

#endif
