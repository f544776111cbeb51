/*
 * fuzz_web.c - what a request to the HTTP server says: the query of its URL,
 * its Host, where it comes from, and what it accepts.  The first line is the Host
 * and Origin, the rest the query.
 */
#include <string.h>

#include "fuzz.h"
#include "web/server.h"

/* 21 November 2026 */
#define NOW (INT64_C(1795000000) * KP_NS_PER_S)

static bool
inside(const struct web_params *p, const char *s)
{
	return s == NULL || (s >= p->text && s < p->text + p->len &&
	    memchr(s, '\0', (size_t)(p->text + p->len - s)) != NULL);
}

static void
params(const char *query)
{
	struct web_params p;
	char why[256] = "";

	if (!web_params_parse(&p, query, PARAM_ALL, NOW, why, sizeof(why))) {
		REQUIRE(why[0] != '\0');
		return;
	}
	REQUIRE(p.range.since < p.range.until);
	REQUIRE(p.limit >= 1 && p.limit <= WEB_LIMIT_MAX);
	REQUIRE(p.len <= sizeof(p.text));
	REQUIRE(inside(&p, p.range.node) && inside(&p, p.range.identity));
	REQUIRE(inside(&p, p.tier) && inside(&p, p.sort) && inside(&p, p.mark));
	REQUIRE((p.given & PARAM_VERSUS) == 0 ||
	    p.versus.since < p.versus.until);
	REQUIRE(p.what >= 0 && p.what <= 6);
	REQUIRE(p.form >= 0 && p.form <= 3);
	REQUIRE(p.ncursor <= WEB_CURSOR_MAX &&
	    ((p.given & PARAM_CURSOR) == 0) == (p.ncursor == 0));
	REQUIRE(p.time <= 60 * KP_NS_PER_S);
	/* what is not allowed is refused */
	REQUIRE(p.given == 0 || !web_params_parse(&p, query,
	    PARAM_ALL & ~p.given, NOW, why, sizeof(why)));
}

/* Only a loopback's name lets anything pass, and only ours may write. */
static void
access_of(const char *host, const char *origin)
{
	struct web_asked a = { .api = true, .own = true, .host = host,
		.origin = origin, .ours = "1" };
	static const struct web_tokens tokens = { "0123456789abcdef",
		"fedcba9876543210" }, none = { "", "" };

	REQUIRE((web_auth(&a, NULL) == WEB_MAY) ==
	    web_host_is_loopback(host));
	REQUIRE(strchr("[lL1", host[0]) != NULL ||
	    !web_host_is_loopback(host));
	REQUIRE(web_auth(&a, &tokens) == WEB_NO_TOKEN);
	a.authorization = origin;
	REQUIRE(web_auth(&a, &tokens) == WEB_NO_TOKEN ||
	    strlen(origin) == strlen("Bearer 0123456789abcdef"));
	REQUIRE(web_auth(&a, &none) == WEB_NO_TOKEN);
	a.fetch_site = origin;
	REQUIRE(web_auth(&a, NULL) != WEB_MAY ||
	    strcmp(origin, "none") == 0 || strcmp(origin, "same-origin") == 0);
	a.fetch_site = NULL;
	a.post = true;
	if (web_auth(&a, NULL) == WEB_MAY)
		REQUIRE(strncmp(origin, "http://", 7) == 0 &&
		    strcmp(origin + 7, host) == 0);
	a.tls = true;
	if (web_auth(&a, NULL) == WEB_MAY)
		REQUIRE(strncmp(origin, "https://", 8) == 0 &&
		    strcmp(origin + 8, host) == 0);
	a.tls = false;
	a.own = false;
	REQUIRE(web_auth(&a, NULL) != WEB_MAY);
	a.own = true;
	a.ours = NULL;
	REQUIRE(web_auth(&a, NULL) != WEB_MAY);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *eol = memchr(p, '\n', size);
	size_t n = eol != NULL ? (size_t)(eol - p) : size;
	char *line, *query, *origin;

	line = strndup(p, n);
	query = strndup(eol != NULL ? eol + 1 : "", eol != NULL ?
	    size - n - 1 : 0);
	REQUIRE(line != NULL && query != NULL);
	origin = strchr(line, ' ');
	if (origin != NULL)
		*origin++ = '\0';
	access_of(line, origin != NULL ? origin : "");
	params(query);
	REQUIRE(!web_takes_gzip(query) || strcasestr(query, "gzip") != NULL);
	free(line);
	free(query);
	return 0;
}
