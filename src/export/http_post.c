/*
 * http_post.c - drives libcurl, whose multi interface waits for the transfer and for
 * a wake-up from another thread.
 *
 * Nothing here waits longer than its timeout: libcurl resolves names on a thread of its
 * own, and at the timeout abandons a thread that hangs (CURLOPT_QUICK_EXIT).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <curl/curl.h>

#include "base/sat.h"
#include "kprofd/secret.h"
#include "http_post.h"
#include "base/gzip.h"

#define ANSWER_HEADERS_MAX 16384
#define POLL_MS_MAX 60000
#define CONNECTION_SECONDS 60

struct post {
	CURLM *multi;
	CURL *easy;
	char *url, *host, *port;	/* libcurl's; url has no '/' at its end */
	struct curl_slist *headers;
	char cause[CURL_ERROR_SIZE];	/* libcurl's text for a failure */
	char why[CURL_ERROR_SIZE + 64];	/* that for people */
	int status;			/* from the answer's head; 0: none yet */
	size_t head;			/* bytes of the answer's head */
	struct kp_buf packed;		/* the body that is being sent */
	struct kp_buf body;		/* the answer's */
	bool unsent;			/* out of memory */
};

/* ---- headers and the URL ---- */

static bool
add_header(struct post *p, const char *line)
{
	struct curl_slist *all = curl_slist_append(p->headers, line);

	if (all != NULL)
		p->headers = all;
	return all != NULL;
}

/* libcurl or this file sends these, so a second one would be a duplicate. */
static bool
is_own_header(const char *name)
{
	static const char *const own[] = { "Host", "Content-Type",
		"Content-Encoding", "Content-Length", "Transfer-Encoding",
		"Connection", "User-Agent" };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcasecmp(name, own[i]) == 0)
			return true;
	return false;
}

static bool
split_header(struct post *p, char *line)
{
	size_t n = strcspn(line, "\r\n");
	char *value = strchr(line, ':'), whole[HTTP_POST_HEADER_MAX + 3];
	bool ok;

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
	snprintf(whole, sizeof(whole), "%s: %s", line, value);
	ok = add_header(p, whole);
	explicit_bzero(whole, sizeof(whole));
	return ok;
}

static enum kp_err
read_header(struct post *p, const char *file, const char *option, char *why, size_t n)
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
	if (!kp_secret_is_private(f, &sb, file, "the header's file",
	    option, why, n)) {
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
has_part(CURLU *u, CURLUPart part)
{
	char *s = NULL;
	bool has = curl_url_get(u, part, &s, 0) == CURLUE_OK;

	curl_free(s);
	return has;
}

static enum kp_err
split_url(struct post *p, const char *url, char *why, size_t n)
{
	CURLU *u = curl_url();
	bool ok = u != NULL &&
	    curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_URL, &p->url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &p->port,
	    CURLU_DEFAULT_PORT) == CURLUE_OK &&
	    (strncmp(p->url, "http://", 7) == 0 ||
	    strncmp(p->url, "https://", 8) == 0) &&
	    !has_part(u, CURLUPART_QUERY) && !has_part(u, CURLUPART_USER);

	curl_url_cleanup(u);
	if (!ok) {
		snprintf(why, n, "'%s' is not a URL that kprofd sends to: "
		    "http://HOST:PORT or https://HOST:PORT", url);
		return KP_EFORMAT;
	}
	for (size_t len = strlen(p->url); p->url[len - 1] == '/'; len--)
		p->url[len - 1] = '\0';
	return KP_OK;
}

/* ---- callbacks of libcurl ---- */

/* Once the head is whole its status counts, even if the body is cut short. */
static size_t
on_head(char *line, size_t one, size_t n, void *ctx)
{
	struct post *p = ctx;
	curl_off_t length = 0;
	long status = 0;

	(void)one;
	p->head += n;
	if (line[0] == '\r' || line[0] == '\n') {
		curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(p->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
		    &length);
	}
	if (status >= 200)
		p->status = (int)status;
	return p->head > ANSWER_HEADERS_MAX || length > HTTP_POST_ANSWER_MAX ?
	    0 : n;
}

static size_t
on_body(char *bytes, size_t one, size_t n, void *ctx)
{
	struct post *p = ctx;

	(void)one;
	kp_buf_put(&p->body, bytes, n);
	return p->body.err == KP_OK ? n : 0;
}

/* Options being set, and the first that libcurl did not take. */
struct setting {
	CURL *e;
	const char *refused;	/* NULL: none yet */
	CURLcode error;
};

#define SET(s, option, value) \
	note_result(s, #option, curl_easy_setopt((s)->e, option, value))

static void
note_result(struct setting *s, const char *option, CURLcode e)
{
	if (e == CURLE_OK || s->refused != NULL)
		return;
	s->refused = option;
	s->error = e;
}

static enum kp_err
setting_error(const struct setting *s, char *why, size_t n)
{
	if (s->refused == NULL)
		return KP_OK;
	if (s->error == CURLE_OUT_OF_MEMORY)
		return KP_ENOMEM;
	snprintf(why, n, "libcurl refuses %s: %s", s->refused,
	    curl_easy_strerror(s->error));
	return KP_EFORMAT;
}

/*
 * Trusts the authorities that SSL_CERT_FILE and SSL_CERT_DIR name, else the
 * system's.  Of the system's, a file is enough: libcurl parses it once, but for
 * every connection (46 ms of CPU time on Debian 12) where a directory is set as
 * well.
 */
static void
set_trust(struct setting *s)
{
	const char *file = getenv("SSL_CERT_FILE"), *dir = getenv("SSL_CERT_DIR");

	SET(s, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (file != NULL || dir != NULL) {
		SET(s, CURLOPT_CAINFO, file);
		SET(s, CURLOPT_CAPATH, dir);
	} else if (curl_version_info(CURLVERSION_NOW)->cainfo != NULL) {
		SET(s, CURLOPT_CAPATH, NULL);
	}
}

static enum kp_err
make_easy(struct post *p, const char *type, char *why, size_t n)
{
	struct setting s = { .e = curl_easy_init() };
	char line[80];

	p->easy = s.e;
	snprintf(line, sizeof(line), "Content-Type: %s", type);
	if (s.e == NULL || !add_header(p, line) ||
	    !add_header(p, "Content-Encoding: gzip") ||
	    /* without it libcurl waits for "100 Continue" before a long body */
	    !add_header(p, "Expect:"))
		return KP_ENOMEM;
#if LIBCURL_VERSION_NUM >= 0x081400
	curl_multi_setopt(p->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	SET(&s, CURLOPT_NOSIGNAL, 1L);
	SET(&s, CURLOPT_QUICK_EXIT, 1L);
	SET(&s, CURLOPT_TIMEOUT, (long)HTTP_POST_SECONDS);
	SET(&s, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
	SET(&s, CURLOPT_MAXLIFETIME_CONN, (long)CONNECTION_SECONDS);
	SET(&s, CURLOPT_PROTOCOLS_STR, "http,https");
	SET(&s, CURLOPT_PROXY, "");
	SET(&s, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(&s, CURLOPT_USERAGENT, "kprofd/" KP_VERSION);
	SET(&s, CURLOPT_HTTPHEADER, p->headers);
	SET(&s, CURLOPT_ERRORBUFFER, p->cause);
	SET(&s, CURLOPT_HEADERFUNCTION, on_head);
	SET(&s, CURLOPT_HEADERDATA, p);
	SET(&s, CURLOPT_WRITEFUNCTION, on_body);
	SET(&s, CURLOPT_WRITEDATA, p);
	if (strncmp(p->url, "https:", 6) == 0)
		set_trust(&s);
	return setting_error(&s, why, n);
}

enum kp_err
http_post_new(struct post **out, const char *url, const char *type,
    const char *header_file, const char *option, char *why, size_t n)
{
	struct post *p = calloc(1, sizeof(*p));
	enum kp_err err;

	snprintf(why, n, "out of memory");
	if (p == NULL)
		return KP_ENOMEM;
	kp_buf_init(&p->packed, SIZE_MAX);
	kp_buf_init(&p->body, HTTP_POST_ANSWER_MAX);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	err = split_url(p, url, why, n);
	if (err == KP_OK && header_file != NULL)
		err = read_header(p, header_file, option, why, n);
	p->multi = curl_multi_init();
	if (err == KP_OK)
		err = p->multi != NULL ? make_easy(p, type, why, n) : KP_ENOMEM;
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
	curl_multi_remove_handle(p->multi, p->easy);
	curl_easy_cleanup(p->easy);
	curl_multi_cleanup(p->multi);
	for (struct curl_slist *h = p->headers; h != NULL; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(p->headers);
	curl_free(p->url);
	curl_free(p->host);
	curl_free(p->port);
	kp_buf_free(&p->packed);
	kp_buf_free(&p->body);
	curl_global_cleanup();
	free(p);
}

/* ---- sending ---- */

static const char *
describe_failure(struct post *p, CURLcode e)
{
	switch (e) {
	case CURLE_COULDNT_CONNECT:
		snprintf(p->why, sizeof(p->why), "cannot connect to %s port %s",
		    p->host, p->port);
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
		snprintf(p->why, sizeof(p->why), "its certificate is refused: "
		    "%s", p->cause);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		snprintf(p->why, sizeof(p->why), "no answer in %d s",
		    HTTP_POST_SECONDS);
		break;
	case CURLE_OK:	/* the head was cut short */
	case CURLE_WRITE_ERROR:	/* the head was too long */
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return "its answer is not HTTP";
	default:
		return p->cause[0] != '\0' ? p->cause : curl_easy_strerror(e);
	}
	return p->why;
}

/*
 * Returns seconds; 0 if there is no such header or it is not understood.  A date
 * is compared with the server's own, if it sends one, since the clocks may
 * differ.
 */
static unsigned
retry_after(CURL *e)
{
	struct curl_header *h;
	time_t then, now = -1;
	unsigned long s;

	if (curl_easy_header(e, "Retry-After", 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
		return 0;
	if (isdigit((unsigned char)h->value[0])) {
		s = strtoul(h->value, NULL, 10);
	} else {
		then = curl_getdate(h->value, NULL);
		if (curl_easy_header(e, "Date", 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
			now = curl_getdate(h->value, NULL);
		if (now == -1)
			now = time(NULL);
		s = then > now ? (unsigned long)(then - now) : 0;
	}
	return s > HTTP_POST_RETRY_MAX ? HTTP_POST_RETRY_MAX : (unsigned)s;
}

static void
take_answer(struct post *p, CURLcode e, struct http_post_answer *a)
{
	*a = (struct http_post_answer){ .status = p->status,
		.text = p->body.len > 0 ? (const char *)p->body.p : "",
		.n = p->body.len };
	if (a->status == 0) {
		a->text = describe_failure(p, e);
		a->n = strlen(a->text);
	} else {
		a->retry_after = retry_after(p->easy);
	}
}

void
http_post_send(struct post *p, const char *path, const struct kp_buf *body)
{
	char *url = NULL;

	p->cause[0] = '\0';
	p->status = 0;
	p->head = 0;
	kp_buf_reset(&p->body);
	kp_buf_reset(&p->packed);
	gzip_put(&p->packed, body->p, body->len);
	p->unsent = p->packed.err != KP_OK || asprintf(&url, "%s%s", p->url, path) < 0 ||
	    curl_easy_setopt(p->easy, CURLOPT_URL, url) != CURLE_OK ||
	    curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, p->packed.p) != CURLE_OK ||
	    curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE,
	    (curl_off_t)p->packed.len) != CURLE_OK ||
	    curl_multi_add_handle(p->multi, p->easy) != CURLM_OK;
	free(url);
}

bool
http_post_wait(struct post *p, kp_dur_ns limit, const atomic_bool *stop,
    struct http_post_answer *a)
{
	kp_mono_ns until = sat_add(kp_mono_now(), limit);
	kp_dur_ns left, ms;
	CURLMsg *m;
	CURLcode e;
	int n;

	if (p->unsent) {
		p->unsent = false;
		take_answer(p, CURLE_OUT_OF_MEMORY, a);
		return true;
	}
	for (;;) {
		curl_multi_perform(p->multi, &n);
		m = curl_multi_info_read(p->multi, &n);
		if (m != NULL && m->msg == CURLMSG_DONE) {
			e = m->data.result;
			curl_multi_remove_handle(p->multi, p->easy);
			take_answer(p, e, a);
			return true;
		}
		left = until - kp_mono_now();
		if (left <= 0 || atomic_load(stop))
			return false;
		ms = left / KP_NS_PER_MS + 1;
		curl_multi_poll(p->multi, NULL, 0, ms > POLL_MS_MAX ?
		    POLL_MS_MAX : (int)ms, NULL);
	}
}

void
http_post_wake(struct post *p)
{
	curl_multi_wakeup(p->multi);
}
