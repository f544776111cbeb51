/*
 * reply.c - sends JSON, errors and files of the page with their security
 * headers; for HEAD, without the body.
 */
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "api.h"
#include "reply.h"

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

/* evhttp would send a body behind the headers that HEAD asks for. */
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

void
reply_asset(struct evhttp_request *req, const struct asset *a)
{
	struct evbuffer *out = evbuffer_new();

	put_headers(req, a->type, true);
	if (out != NULL)
		evbuffer_add_reference(out, a->p, a->n, NULL, NULL);
	finish(req, 200, out);
}
