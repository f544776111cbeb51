/*
 * cookie.h - reads the cookie that nodes share.
 */
#ifndef KPROFD_CONN_COOKIE_H
#define KPROFD_CONN_COOKIE_H

#include <stddef.h>

#include "kprofd/err.h"

#define NODE_COOKIE_MAX 255	/* bytes */
#define NODE_COOKIE_PATH_MAX 4096

/* The file: `file`, else $KPROFD_COOKIE_FILE, else ~/.erlang.cookie, in buf. */
const char *node_cookie_path(const char *file, char buf[NODE_COOKIE_PATH_MAX]);
/*
 * Reads the cookie from that file.  Like the VM it refuses one that others may read.
 * On an error `why` names the file and the remedy.
 */
enum kp_err node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1],
    char *why, size_t whylen);

#endif
