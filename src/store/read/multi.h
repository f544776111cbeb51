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

/*
 * Each window of the range in order of start, whichever part it is in.
 */
enum kp_err multi_windows(struct kp_query *set, const struct kp_query_range *r,
    void (*fn)(void *ctx, kp_wall_ns start, kp_wall_ns end), void *ctx);
/* Cells of several nodes add up by their shares: decides it for all parts. */
enum kp_err multi_shares(struct kp_query *set, const struct kp_query_range *r);

#endif
