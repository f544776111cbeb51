/* reply.h - the web server's answers, all with the same security headers. */
#ifndef KPROFD_WEB_REPLY_H
#define KPROFD_WEB_REPLY_H

#include <event2/http.h>

#include <stdbool.h>
#include <stddef.h>

/* Sends a copy of n bytes of JSON. */
void reply(struct evhttp_request *req, int status, const void *p, size_t n);
/* The same, of another content type. */
void reply_as(struct evhttp_request *req, int status, const char *type,
    const void *p, size_t n);
/* Sends {"error": TEXT}. */
void reply_error(struct evhttp_request *req, int status, const char *text);
/* Sends a file of the page, such as "/app.js"; false: there is no such file. */
bool reply_asset(struct evhttp_request *req, const char *path);

#endif
