/* listen.h - where the web server listens. */
#ifndef KP_WEB_LISTEN_H
#define KP_WEB_LISTEN_H

#include <event2/event.h>

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define WEB_ADDR_MAX 64

/*
 * A listening socket for "127.0.0.1:4711" or "[::1]:4711" (no names: those
 * may be anybody's).  Other than the loopback's only where `open`.  at: what
 * it became, of WEB_ADDR_MAX bytes.
 */
enum kp_err web_listen(evutil_socket_t *fd, const char *addr, bool open,
    char *at, char *why, size_t n);

#endif
