/* reply.h - answers of the web server, with the headers that all have. */
#ifndef KP_WEB_REPLY_H
#define KP_WEB_REPLY_H

#include <event2/http.h>

#include "assets.h"

/* JSON; copied. */
void reply(struct evhttp_request *req, int status, const void *p, size_t n);
/* The same of another type. */
void reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n);
/* {"error": TEXT} */
void reply_error(struct evhttp_request *req, int status, const char *text);
void reply_asset(struct evhttp_request *req, const struct asset *a);

#endif
