/*
 * reply.c - sends JSON, errors and the page's files, which are built in, with
 * security headers, compressed for clients that can read that; for HEAD, or for what
 * the client has already, without the body.
 *
 * It compresses in the web server's thread, which made the answer: the daemon's loop
 * has no part in that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "server.h"
#include "base/gzip.h"
#include "base/map.h"
#include "text/accept.h"

#include "web_assets.h"		/* web_files[]: see assets.sh */

#define NFILES (sizeof(web_files) / sizeof(web_files[0]))

#define PROBLEM_TYPE "application/problem+json"

#define GZIP_MIN 1024		/* bytes; of fewer, a packet has room for all */

static const char *
header_of(struct evhttp_request *req, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(req), name);
}

static void
put_headers(struct evhttp_request *req, const char *type, bool tagged)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(req);
	const char *const fixed[][2] = {
		{ "Content-Type", type },
		{ "Cache-Control", tagged ? "no-cache" : "no-store" },
		{ "Vary", "Accept-Encoding" },
		{ "Content-Security-Policy", "default-src 'none'; script-src "
		    "'self'; style-src 'self'; img-src 'self' data:; "
		    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
		    "frame-ancestors 'none'" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Frame-Options", "DENY" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Cross-Origin-Opener-Policy", "same-origin" },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		evhttp_add_header(h, fixed[i][0], fixed[i][1]);
}

/*
 * Puts the body's ETag.  True: the client has this body.  The tag is weak, because the
 * body with and without gzip has the same.  Its quotes are part of what is searched for,
 * so that a list holds it only as a whole.
 */
static bool
put_tag(struct evhttp_request *req, const void *p, size_t n)
{
	const char *had = header_of(req, "If-None-Match");
	char tag[24];

	snprintf(tag, sizeof(tag), "W/\"%016" PRIx64 "\"", intern_hash(p, n));
	evhttp_add_header(evhttp_request_get_output_headers(req), "ETag", tag);
	return had != NULL && (strcmp(had, "*") == 0 ||
	    strstr(had, strchr(tag, '"')) != NULL);
}

bool
web_takes_gzip(const char *accept)
{
	size_t n;

	for (const char *p = accept; p != NULL && *p != '\0';
	    p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (accept_has(p, n, "gzip"))
			return accept_quality(p, n) > 0;
	}
	return false;
}

/* Replaces the body by a compressed one, if that is wanted, possible, and not yet done. */
static void
compress_body(struct evhttp_request *req, struct evbuffer *body)
{
	size_t n = evbuffer_get_length(body);
	const uint8_t *p = evbuffer_pullup(body, -1);
	struct kp_buf to;

	if (n <= GZIP_MIN || (p[0] == 0x1f && p[1] == 0x8b) ||
	    !web_takes_gzip(header_of(req, "Accept-Encoding")))
		return;
	kp_buf_init(&to, n);
	gzip_put(&to, p, n);
	if (to.err == KP_OK) {
		evbuffer_drain(body, n);
		evbuffer_add(body, to.p, to.len);
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Content-Encoding", "gzip");
	}
	kp_buf_free(&to);
}

/*
 * Takes the body.  tagged: the client may keep it, and asks each time whether it is
 * still the same.  HEAD is answered without it: evhttp would send it after the headers.
 */
static void
finish(struct evhttp_request *req, int status, const char *type, bool tagged,
    struct evbuffer *body)
{
	char length[24];

	put_headers(req, type, tagged);
	if (body == NULL) {
		evhttp_send_reply(req, status, NULL, NULL);
		return;
	}
	if (tagged && put_tag(req, evbuffer_pullup(body, -1),
	    evbuffer_get_length(body))) {
		status = HTTP_NOTMODIFIED;
		evbuffer_drain(body, evbuffer_get_length(body));
	} else {
		compress_body(req, body);
	}
	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD &&
	    status != HTTP_NOTMODIFIED) {
		snprintf(length, sizeof(length), "%zu",
		    evbuffer_get_length(body));
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Content-Length", length);
		evbuffer_drain(body, evbuffer_get_length(body));
	}
	evhttp_send_reply(req, status, NULL, body);
	evbuffer_free(body);
}

static struct evbuffer *
copy_of(const void *p, size_t n)
{
	struct evbuffer *body = evbuffer_new();

	if (body != NULL)
		evbuffer_add(body, p, n);
	return body;
}

void
reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n)
{
	if (status == 401)
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "WWW-Authenticate", "Bearer");
	finish(req, status, type, false, copy_of(p, n));
}

void
reply_tagged(struct evhttp_request *req, const void *p, size_t n)
{
	finish(req, 200, "application/json", true, copy_of(p, n));
}

void
reply(struct evhttp_request *req, int status, const void *p, size_t n)
{
	reply_as(req, status, status < 400 ? "application/json" : PROBLEM_TYPE, p, n);
}

void
reply_error(struct evhttp_request *req, enum web_problem problem,
    const char *detail)
{
	struct api_answer a;

	kp_buf_init(&a.b, 1u << 16);
	api_error(&a, problem, detail);
	reply(req, a.status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

void
reply_instead(struct evbuffer *out, int status)
{
	struct api_answer a;

	kp_buf_init(&a.b, 1u << 16);
	if (status == 413)
		api_error(&a, PROBLEM_BODY, "the body is too long: no request here "
		    "needs one, parameters are in the URL");
	else if (status == 501)
		api_error(&a, PROBLEM_UNKNOWN_METHOD, "this is not a method of HTTP "
		    "that kprofd knows: use GET, HEAD or POST");
	else
		api_error(&a, PROBLEM_BAD_REQUEST, "this is not a request of HTTP/1.1, "
		    "or its headers are malformed or too long");
	evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: " PROBLEM_TYPE
	    "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
	    "Connection: close\r\nContent-Length: %zu\r\n\r\n%s", a.status,
	    status_title(a.status), a.b.len, kp_buf_cstr(&a.b));
	kp_buf_free(&a.b);
}

static const struct {
	const char *end, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" },
	{ ".svg", "image/svg+xml" },
	{ ".json", "application/json" },
	{ ".txt", "text/plain; charset=utf-8" },
};

static const char *
type_of(const char *path)
{
	const char *end = strrchr(path, '.');

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (end != NULL && strcmp(end, types[i].end) == 0)
			return types[i].type;
	return "application/octet-stream";
}

bool
reply_asset(struct evhttp_request *req, const char *path)
{
	struct evbuffer *body;
	size_t i = 0;

	if (strcmp(path, "/") == 0)
		path = "/index.html";
	while (i < NFILES && strcmp(web_files[i].path, path) != 0)
		i++;
	if (i == NFILES)
		return false;
	body = evbuffer_new();
	if (body != NULL)
		evbuffer_add_reference(body, web_files[i].p, web_files[i].n,
		    NULL, NULL);
	finish(req, 200, type_of(path), true, body);
	return true;
}
