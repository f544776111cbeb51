/*
 * http_post.h - sends one body at a time to an HTTP or HTTPS server.
 *
 * Bodies are compressed.  They share a connection of at most a minute, since a
 * server's name may lead elsewhere by then; one that the server has closed meanwhile
 * is replaced by libcurl.  No proxy is used and no redirect followed.
 * The server's certificate has to be valid for the URL's host, by the system's
 * authorities, or by those of SSL_CERT_FILE and SSL_CERT_DIR if either is set.
 * Answers are limited in size and time; if a limit cuts the answer's body short,
 * the status in its head still counts, since the server has received the request.
 */
#ifndef KPROFD_EXPORT_HTTP_POST_H
#define KPROFD_EXPORT_HTTP_POST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define HTTP_POST_SECONDS 10		/* from connecting to the end of the answer */
#define HTTP_POST_ANSWER_MAX 65536	/* bytes of an answer's body */
#define HTTP_POST_HEADER_MAX 8192	/* bytes of header_file */
#define HTTP_POST_RETRY_MAX 3600	/* seconds that an answer may ask for */

struct post;

/*
 * url: http://HOST[:PORT][/PATH] or https.  type: of bodies, "application/json", a literal.
 * header_file: NULL, or a file of
 * one line "Name: value" that only its owner may read, for authorization; option: the one
 * that named it.  On error `why` is one line for the user.
 */
enum kp_err http_post_new(struct post **out, const char *url, const char *type,
    const char *header_file, const char *option, char *why, size_t n);
void http_post_free(struct post *p);

struct http_post_answer {
	int status;		/* of HTTP; 0: no answer */
	const char *text;	/* the body; of status 0 the reason */
	size_t n;
	unsigned retry_after;	/* seconds; 0: not given */
};

/*
 * Begins to send the body to the URL's path with `path` appended, and keeps none of
 * it.  The caller may not send another until http_post_wait() returned true.
 */
void http_post_send(struct post *p, const char *path, const struct kp_buf *body);
/*
 * Goes on with it, or only waits if nothing is being sent: for `limit`, or until *stop
 * is set and http_post_wake() called.  True: *a is the answer, good until the next body.
 */
bool http_post_wait(struct post *p, kp_dur_ns limit, const atomic_bool *stop,
    struct http_post_answer *a);
/* From any thread. */
void http_post_wake(struct post *p);

#endif
