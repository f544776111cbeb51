/*
 * auth.h - decides which requests are allowed.  Pure.
 *
 * Without a token the server is on the loopback only, and these checks protect it
 * from a web page that the user's browser has open.  The Host header has to name
 * a loopback address, against DNS rebinding.  A request that changes anything has
 * to come from our own page, by the browser's Origin and Sec-Fetch-Site and by a
 * header that other sites cannot send without a CORS preflight.  Another site's
 * page cannot read an answer, but could keep the server busy: a request that the
 * browser marks as another site's is refused too.  Programs of other users of
 * the machine can send any header: they may read, but not change anything.
 */
#ifndef KPROFD_WEB_AUTH_H
#define KPROFD_WEB_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define WEB_TOKEN_MIN 16	/* bytes */
#define WEB_TOKEN_MAX 256

/* What is known of a request; NULL: it has no such header. */
struct web_asked {
	bool post, api;
	bool own;	/* conns_peer_is_ours() */
	const char *host, *origin, *fetch_site, *ours, *authorization;
};

enum web_verdict {
	WEB_MAY,
	WEB_WRONG_HOST,		/* 403 */
	WEB_NO_TOKEN,		/* 401 */
	WEB_FOREIGN,		/* 403 */
	WEB_OTHER_USER		/* 403 */
};

/* token: NULL where none is configured. */
enum web_verdict web_auth(const struct web_asked *a, const char *token);
const char *web_auth_why(enum web_verdict v);

/* localhost, 127.x.y.z, [::1], with or without a port. */
bool web_host_is_loopback(const char *host);

/*
 * Reads the first line of a file that only its owner may read.  On error `why`
 * says what is wrong, and what to do.
 */
enum kp_err web_token_read(const char *path, char token[WEB_TOKEN_MAX + 1],
    char *why, size_t n);

#endif
