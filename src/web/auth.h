/*
 * auth.h - decides who may ask for what.  Pure.
 *
 * Without a token the server is on the loopback only, and these checks stand
 * between it and a web page that the user's browser has open: the name that the
 * browser thinks it speaks to must be a loopback's (a page cannot make its own
 * name resolve to us), and a request that changes anything must come from our
 * own page, as shown by what the browser says (Origin, Sec-Fetch-Site) and by a
 * header that no form and no other page can send without asking first.  Another
 * site's page could not read an answer, but it could keep us busy: where the
 * browser names another site as the source, the request is refused too.
 * Programs of other users of the machine can send any header: they may read,
 * but change nothing.
 */
#ifndef KPROFD_WEB_AUTH_H
#define KPROFD_WEB_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/err.h"

#define WEB_TOKEN_MIN 16	/* bytes */
#define WEB_TOKEN_MAX 256

/* Of one request; NULL: it has no such header. */
struct web_asked {
	bool post, api;
	bool own;	/* by a process of our user's, or root's (peer_uid.h) */
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
 * The first line of a file that only its owner may read.  On error `why` says
 * what is wrong with it, and what to do.
 */
enum kp_err web_token_read(const char *path, char token[WEB_TOKEN_MAX + 1],
    char *why, size_t n);

#endif
