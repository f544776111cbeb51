/* trees.h - the copies of slow requests that the store keeps (traces). */
#ifndef KPROFD_DAEMON_NODES_TREES_H
#define KPROFD_DAEMON_NODES_TREES_H

#include "daemon/nodes/assembly.h"

/*
 * For the store, which frees it; to be called from on_request of kp_requests.
 * It borrows the names that windows borrow.  NULL when out of memory.
 */
struct kp_tree *tree_make(const struct assembly_part *p,
    const struct kp_request *rq);

#endif
