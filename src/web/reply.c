/*
 * reply.c - sends JSON, errors and the page's files, which are built in, with
 * security headers; for HEAD, without the body.
 */
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "server.h"

#include "web_assets.h"		/* web_files[]: see assets.sh */

#define NFILES (sizeof(web_files) / sizeof(web_files[0]))

static void
put_headers(struct evhttp_request *req, const char *type, bool asset)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(req);
	const char *const fixed[][2] = {
		{ "Content-Type", type },
		{ "Cache-Control", asset ? "no-cache" : "no-store" },
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

/* Answers HEAD without the body, which evhttp would send after the headers. */
static void
finish(struct evhttp_request *req, int status, struct evbuffer *out)
{
	char length[24];

	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD && out != NULL) {
		snprintf(length, sizeof(length), "%zu",
		    evbuffer_get_length(out));
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "Content-Length", length);
		evbuffer_drain(out, evbuffer_get_length(out));
	}
	evhttp_send_reply(req, status, NULL, out);
	if (out != NULL)
		evbuffer_free(out);
}

void
reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n)
{
	struct evbuffer *out = evbuffer_new();

	put_headers(req, type, false);
	if (status == 401)
		evhttp_add_header(evhttp_request_get_output_headers(req),
		    "WWW-Authenticate", "Bearer");
	if (out != NULL)
		evbuffer_add(out, p, n);
	finish(req, status, out);
}

void
reply(struct evhttp_request *req, int status, const void *p, size_t n)
{
	reply_as(req, status, "application/json", p, n);
}

void
reply_error(struct evhttp_request *req, int status, const char *text)
{
	struct api_answer a;

	kp_buf_init(&a.b, 1u << 16);
	api_error(&a, status, text);
	reply(req, status, a.b.p, a.b.len);
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
	struct evbuffer *out;
	size_t i = 0;

	if (strcmp(path, "/") == 0)
		path = "/index.html";
	while (i < NFILES && strcmp(web_files[i].path, path) != 0)
		i++;
	if (i == NFILES)
		return false;
	out = evbuffer_new();
	put_headers(req, type_of(path), true);
	if (out != NULL)
		evbuffer_add_reference(out, web_files[i].p, web_files[i].n,
		    NULL, NULL);
	finish(req, 200, out);
	return true;
}
