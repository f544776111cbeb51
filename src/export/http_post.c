/*
 * http_post.c - parses the URL and the header file, makes a connection (evhttp,
 * OpenSSL) for each body, and waits for the answer.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "kprofd/secret.h"
#include "http_post.h"

#define ANSWER_HEADERS_MAX 16384
#define RESOLV_CONF "/etc/resolv.conf"

struct post {
	struct event_base *base;
	struct evdns_base *dns;
	SSL_CTX *tls;			/* NULL: http */
	char *host, *path;		/* owned; the path without '/' at its end */
	uint16_t port;
	char *header, *value;		/* owned; NULL: none */
	struct evhttp_connection *conn;	/* NULL: nothing is under way */
	struct event *over;		/* frees it, out of its own callbacks */
	struct event *limit;		/* of the whole, however it trickles */
	SSL *ssl;			/* conn's, and ours */
	enum evhttp_request_error failure;
	bool failed, unanswered;	/* by the last one: the latter */
	int status;			/* of the answer's head; 0: none yet */
	unsigned retry_after;
	http_post_fn *done;
	void *ctx;
};

/* ---- making one ---- */

/* What evhttp writes itself would be there twice. */
static bool
is_own_header(const char *name)
{
	static const char *const own[] = { "Host", "Content-Type",
		"Content-Length", "Transfer-Encoding", "Connection",
		"User-Agent" };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcasecmp(name, own[i]) == 0)
			return true;
	return false;
}

static bool
split_header(struct post *p, char *line)
{
	size_t n = strcspn(line, "\r\n");
	char *value = strchr(line, ':');

	while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		n--;
	line[n] = '\0';
	if (value == NULL || value == line)
		return false;
	*value++ = '\0';
	value += strspn(value, " \t");
	for (const char *s = line; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && strchr("-_", *s) == NULL)
			return false;
	for (const char *s = value; *s != '\0'; s++)
		if (iscntrl((unsigned char)*s) && *s != '\t')
			return false;
	if (*value == '\0' || is_own_header(line))
		return false;
	p->header = strdup(line);
	p->value = strdup(value);
	return p->header != NULL && p->value != NULL;
}

static enum kp_err
read_header(struct post *p, const char *file, char *why, size_t n)
{
	char line[HTTP_POST_HEADER_MAX];
	const char *reason;
	struct stat sb;
	FILE *f = kp_secret_open(file, &sb, &reason);
	bool ok, whole;

	if (f == NULL) {
		snprintf(why, n, "cannot read '%s': %s", file, reason);
		return KP_EIO;
	}
	if ((sb.st_mode & kp_secret_mode_bad(file,
	    getenv("CREDENTIALS_DIRECTORY"))) != 0) {
		snprintf(why, n, "'%s' can be read by others than its owner: "
		    "chmod 600 it", file);
		fclose(f);
		return KP_EFORMAT;
	}
	ok = fgets(line, sizeof(line), f) != NULL;
	whole = ok && (strchr(line, '\n') != NULL || fgetc(f) == EOF);
	fclose(f);
	ok = whole && split_header(p, line);
	explicit_bzero(line, sizeof(line));
	if (!ok)
		snprintf(why, n, "'%s' has no line 'Name: value' that can be "
		    "sent, of %d bytes at most", file, HTTP_POST_HEADER_MAX - 2);
	return ok ? KP_OK : KP_EFORMAT;
}

static bool
is_address(const char *host)
{
	unsigned char addr[16];

	return inet_pton(AF_INET, host, addr) == 1 ||
	    inet_pton(AF_INET6, host, addr) == 1;
}

/* [::1] is an address in brackets. */
static char *
host_of(const char *host)
{
	size_t n = strlen(host);

	if (n > 2 && host[0] == '[' && host[n - 1] == ']')
		return strndup(host + 1, n - 2);
	return strdup(host);
}

static enum kp_err
split_url(struct post *p, const char *url, bool *tls, char *why, size_t n)
{
	struct evhttp_uri *u = evhttp_uri_parse(url);
	const char *scheme = u != NULL ? evhttp_uri_get_scheme(u) : NULL;
	const char *host = u != NULL ? evhttp_uri_get_host(u) : NULL;
	enum kp_err err = KP_EFORMAT;
	int port;
	size_t len;

	*tls = scheme != NULL && strcmp(scheme, "https") == 0;
	if (scheme == NULL || host == NULL || host[0] == '\0' ||
	    (!*tls && strcmp(scheme, "http") != 0) ||
	    evhttp_uri_get_query(u) != NULL ||
	    evhttp_uri_get_userinfo(u) != NULL) {
		snprintf(why, n, "'%s' is no URL of a collector: "
		    "http://HOST:4318 or https://HOST:4318", url);
	} else {
		port = evhttp_uri_get_port(u);
		p->port = (uint16_t)(port > 0 ? port : *tls ? 443 : 80);
		p->host = host_of(host);
		p->path = strdup(evhttp_uri_get_path(u));
		err = p->host != NULL && p->path != NULL ? KP_OK : KP_ENOMEM;
	}
	if (err == KP_OK) {
		len = strlen(p->path);
		while (len > 0 && p->path[len - 1] == '/')
			p->path[--len] = '\0';
	}
	if (u != NULL)
		evhttp_uri_free(u);
	return err;
}

static enum kp_err
make_tls(struct post *p)
{
	p->tls = SSL_CTX_new(TLS_client_method());
	if (p->tls == NULL ||
	    SSL_CTX_set_min_proto_version(p->tls, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_default_verify_paths(p->tls) != 1)
		return KP_ENOMEM;
	SSL_CTX_set_verify(p->tls, SSL_VERIFY_PEER, NULL);
	return KP_OK;
}

static void
free_conn(struct post *p)
{
	struct evhttp_connection *conn = p->conn;

	p->conn = NULL;
	if (conn != NULL)
		evhttp_connection_free(conn);
	SSL_free(p->ssl);
	p->ssl = NULL;
}

static void
on_over(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	free_conn(ctx);
}

/* It would write to standard error; what comes of it is in the answer. */
static void
say_no_dns(int is_warning, const char *text)
{
	(void)is_warning, (void)text;
}

static void on_limit(evutil_socket_t fd, short what, void *ctx);

enum kp_err
http_post_new(struct post **out, struct event_base *base, const char *url,
    const char *header_file, char *why, size_t n)
{
	struct post *p = calloc(1, sizeof(*p));
	enum kp_err err;
	bool tls;

	snprintf(why, n, "out of memory");
	if (p == NULL)
		return KP_ENOMEM;
	p->base = base;
	err = split_url(p, url, &tls, why, n);
	if (err == KP_OK && header_file != NULL)
		err = read_header(p, header_file, why, n);
	if (err == KP_OK && tls)
		err = make_tls(p);
	if (err == KP_OK &&
	    ((p->over = evtimer_new(base, on_over, p)) == NULL ||
	    (p->limit = evtimer_new(base, on_limit, p)) == NULL ||
	    (p->dns = evdns_base_new(base,
	    EVDNS_BASE_DISABLE_WHEN_INACTIVE)) == NULL))
		err = KP_ENOMEM;
	evdns_set_log_fn(say_no_dns);
	/* without the file the local host is asked */
	if (err == KP_OK)
		evdns_base_resolv_conf_parse(p->dns, DNS_OPTIONS_ALL,
		    RESOLV_CONF);
	if (err == KP_OK)
		*out = p;
	else
		http_post_free(p);
	return err;
}

void
http_post_free(struct post *p)
{
	if (p == NULL)
		return;
	p->done = NULL;
	free_conn(p);
	if (p->over != NULL)
		event_free(p->over);
	if (p->limit != NULL)
		event_free(p->limit);
	if (p->dns != NULL)
		evdns_base_free(p->dns, 0);
	SSL_CTX_free(p->tls);
	free(p->host);
	free(p->path);
	free(p->header);
	if (p->value != NULL)
		explicit_bzero(p->value, strlen(p->value));
	free(p->value);
	free(p);
}

/* ---- sending ---- */

/* Once; the connection goes when its own callbacks have returned. */
static void
answer(struct post *p, const struct http_post_answer *a)
{
	const struct timeval now = { 0, 0 };
	http_post_fn *done = p->done;

	p->done = NULL;
	event_del(p->limit);
	if (p->conn != NULL)
		event_add(p->over, &now);
	if (done != NULL)
		done(p->ctx, a);
}

static void
say_failure(const struct post *p, char *why, size_t n)
{
	long bad = p->ssl != NULL ? SSL_get_verify_result(p->ssl) : X509_V_OK;

	if (bad != X509_V_OK)
		snprintf(why, n, "its certificate is refused: %s",
		    X509_verify_cert_error_string(bad));
	else if (p->failed && p->failure == EVREQ_HTTP_TIMEOUT)
		snprintf(why, n, "no answer in %d s", HTTP_POST_SECONDS);
	else if (p->failed && p->failure == EVREQ_HTTP_INVALID_HEADER)
		snprintf(why, n, "its answer is no HTTP");
	else
		snprintf(why, n, "cannot connect to %s port %u", p->host,
		    p->port);
}

/* RFC 9110's preferred form; -1: in no such form. */
static time_t
http_date(const char *v)
{
	struct tm t = { 0 };
	const char *end = v != NULL ?
	    strptime(v, "%a, %d %b %Y %H:%M:%S GMT", &t) : NULL;

	return end != NULL && *end == '\0' ? timegm(&t) : -1;
}

/*
 * Seconds; 0 where there is none, or nothing that is understood.  A date is
 * taken from the collector's own, if it sends that: its clock may be another.
 */
static unsigned
retry_after(struct evhttp_request *req)
{
	const struct evkeyvalq *in = evhttp_request_get_input_headers(req);
	const char *v = evhttp_find_header(in, "Retry-After");
	time_t then, now;
	unsigned long s;

	if (v == NULL)
		return 0;
	if (isdigit((unsigned char)*v)) {
		s = strtoul(v, NULL, 10);
	} else {
		then = http_date(v);
		now = http_date(evhttp_find_header(in, "Date"));
		if (now == -1)
			now = time(NULL);
		s = then > now ? (unsigned long)(then - now) : 0;
	}
	return s > HTTP_POST_RETRY_MAX ? HTTP_POST_RETRY_MAX : (unsigned)s;
}

/* What the head says holds, whatever becomes of the rest. */
static int
on_head(struct evhttp_request *req, void *ctx)
{
	struct post *p = ctx;
	int status = evhttp_request_get_response_code(req);

	if (status >= 200) {
		p->status = status;
		p->retry_after = retry_after(req);
	}
	return 0;
}

static void
on_done(struct evhttp_request *req, void *ctx)
{
	struct post *p = ctx;
	struct http_post_answer a = { .status = p->status, .text = "",
		.retry_after = p->retry_after };
	struct evbuffer *in;
	char why[256];

	if (p->done == NULL)
		return;
	in = req != NULL ? evhttp_request_get_input_buffer(req) : NULL;
	p->unanswered = a.status == 0;
	if (p->unanswered) {
		say_failure(p, why, sizeof(why));
		a.text = why;
		a.n = strlen(why);
	} else if (in != NULL && evbuffer_get_length(in) > 0) {
		a.n = evbuffer_get_length(in);
		a.text = (const char *)evbuffer_pullup(in, -1);
	}
	answer(p, &a);
}

static void
on_limit(evutil_socket_t fd, short what, void *ctx)
{
	struct post *p = ctx;

	(void)fd, (void)what;
	p->failure = EVREQ_HTTP_TIMEOUT;
	p->failed = true;
	on_done(NULL, p);
}

static void
on_error(enum evhttp_request_error e, void *ctx)
{
	struct post *p = ctx;

	p->failure = e;
	p->failed = true;
}

/* The name that the certificate has to be for. */
static bool
expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
	return SSL_set1_host(ssl, host) == 1 &&
	    SSL_set_tlsext_host_name(ssl, host) == 1;
}

static struct bufferevent *
make_bev(struct post *p)
{
	struct bufferevent *bev;

	if (p->tls == NULL)
		return bufferevent_socket_new(p->base, -1,
		    BEV_OPT_CLOSE_ON_FREE);
	p->ssl = SSL_new(p->tls);
	if (p->ssl == NULL || !expect_host(p->ssl, p->host) ||
	    SSL_up_ref(p->ssl) != 1)
		return NULL;
	bev = bufferevent_openssl_socket_new(p->base, -1, p->ssl,
	    BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	if (bev != NULL)
		bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	else
		SSL_free(p->ssl);	/* the one that it would have */
	return bev;
}

/* Whom to ask for names may have changed since. */
static void
renew_dns(struct post *p)
{
	evdns_base_clear_nameservers_and_suspend(p->dns);
	evdns_base_resolv_conf_parse(p->dns, DNS_OPTIONS_ALL &
	    ~DNS_OPTION_HOSTSFILE, RESOLV_CONF);
	evdns_base_resume(p->dns);
}

static bool
make_conn(struct post *p)
{
	struct bufferevent *bev = make_bev(p);

	if (bev == NULL)
		return false;
	p->conn = evhttp_connection_base_bufferevent_new(p->base, p->dns, bev,
	    p->host, p->port);
	if (p->conn == NULL) {
		bufferevent_free(bev);
		return false;
	}
	evhttp_connection_set_timeout(p->conn, HTTP_POST_SECONDS);
	evhttp_connection_set_max_body_size(p->conn, HTTP_POST_ANSWER_MAX);
	evhttp_connection_set_max_headers_size(p->conn, ANSWER_HEADERS_MAX);
	return true;
}

static void
put_headers(const struct post *p, struct evhttp_request *req)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(req);
	char host[300];

	snprintf(host, sizeof(host), strchr(p->host, ':') != NULL ?
	    "[%s]:%u" : "%s:%u", p->host, p->port);
	evhttp_add_header(h, "Host", host);
	evhttp_add_header(h, "Content-Type", "application/json");
	evhttp_add_header(h, "User-Agent", "kprofd/" KP_VERSION);
	evhttp_add_header(h, "Connection", "close");
	if (p->header != NULL)
		evhttp_add_header(h, p->header, p->value);
}

void
http_post_send(struct post *p, const char *path, const struct kp_buf *body,
    http_post_fn *done, void *ctx)
{
	static const char none[] = "out of memory";
	const struct http_post_answer bad = { 0, none, strlen(none), 0 };
	struct evhttp_request *req = NULL;
	const struct timeval limit = { HTTP_POST_SECONDS, 0 };
	char full[1024];

	free_conn(p);
	event_del(p->over);
	if (p->unanswered)
		renew_dns(p);
	p->failed = p->unanswered = false;
	p->status = 0;
	p->retry_after = 0;
	p->done = done;
	p->ctx = ctx;
	if (!make_conn(p) || (req = evhttp_request_new(on_done, p)) == NULL) {
		answer(p, &bad);
		return;
	}
	event_add(p->limit, &limit);
	evhttp_request_set_header_cb(req, on_head);
	evhttp_request_set_error_cb(req, on_error);
	put_headers(p, req);
	evbuffer_add(evhttp_request_get_output_buffer(req), body->p,
	    body->len);
	snprintf(full, sizeof(full), "%s%s", p->path, path);
	/* it takes the request, whatever comes of it */
	if (evhttp_make_request(p->conn, req, EVHTTP_REQ_POST, full) != 0)
		on_done(NULL, p);
}
