/*
 * auth.c - compares a request's Host, Origin, Sec-Fetch-Site and token with
 * what is allowed, and reads the files of tokens.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "server.h"
#include "kprofd/secret.h"

/* True for ":4711", and for "". */
static bool
is_port(const char *s)
{
	size_t n;

	if (*s == '\0')
		return true;
	n = strspn(s + (*s == ':'), "0123456789");
	return *s == ':' && n > 0 && n < 6 && s[1 + n] == '\0';
}

bool
web_host_is_loopback(const char *host)
{
	struct in_addr addr;
	char name[32];
	size_t n;

	if (strncmp(host, "[::1]", 5) == 0)
		return is_port(host + 5);
	n = strcspn(host, ":");
	if (n >= sizeof(name) || !is_port(host + n))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	return strcasecmp(name, "localhost") == 0 ||
	    (inet_pton(AF_INET, name, &addr) == 1 &&
	    ntohl(addr.s_addr) >> 24 == 127);
}

/* Compares in constant time. */
static bool
same_token(const char *given, const char *token)
{
	size_t n = strlen(token), given_n = strlen(given);
	unsigned differ = given_n != n;

	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)token[i] ^
		    (unsigned char)given[given_n > 0 ? i % given_n : 0];
	return differ == 0;
}

static bool
has_token(const struct web_asked *a, const char *token)
{
	static const char bearer[] = "Bearer ";
	const char *s = a->authorization;

	return token[0] != '\0' && s != NULL &&
	    strncasecmp(s, bearer, strlen(bearer)) == 0 &&
	    same_token(s + strlen(bearer), token);
}

/* Does the browser say that our own page sent it? */
static bool
from_our_page(const struct web_asked *a)
{
	const char *scheme = a->tls ? "https://" : "http://";

	return a->origin != NULL && a->ours != NULL &&
	    strncmp(a->origin, scheme, strlen(scheme)) == 0 &&
	    strcmp(a->origin + strlen(scheme), a->host) == 0 &&
	    (a->fetch_site == NULL ||
	    strcmp(a->fetch_site, "same-origin") == 0);
}

/* Does the browser say that another site's page, or a link there, sent it? */
static bool
from_other_site(const struct web_asked *a)
{
	return a->fetch_site != NULL &&
	    strcmp(a->fetch_site, "same-origin") != 0 &&
	    strcmp(a->fetch_site, "none") != 0;
}

enum web_verdict
web_auth(const struct web_asked *a, const struct web_tokens *t)
{
	if (a->host == NULL || (t == NULL && !web_host_is_loopback(a->host)))
		return WEB_WRONG_HOST;
	if (t != NULL && (!a->api || has_token(a, t->full)))
		return WEB_MAY;
	if (t != NULL)
		return !has_token(a, t->read) ? WEB_NO_TOKEN :
		    a->post ? WEB_READ_ONLY : WEB_MAY_READ;
	if (a->post ? !from_our_page(a) : a->api && from_other_site(a))
		return WEB_FOREIGN;
	return a->post && !a->own ? WEB_OTHER_USER : WEB_MAY;
}

enum web_problem
web_auth_problem(enum web_verdict v, const char **why)
{
	static const struct {
		enum web_problem problem;
		const char *why;
	} refused[] = {
		[WEB_WRONG_HOST] = { PROBLEM_WRONG_HOST,
		    "the Host header names no loopback address: ask for "
		    "127.0.0.1 or localhost, or configure a token "
		    "(-http-token-file)" },
		[WEB_NO_TOKEN] = { PROBLEM_NO_TOKEN,
		    "the token is missing or wrong: send it as "
		    "'Authorization: Bearer TOKEN'" },
		[WEB_READ_ONLY] = { PROBLEM_READ_ONLY,
		    "this token may only read: pause, resume, dump, traces and "
		    "marks need that of -http-token-file, or kprof on the "
		    "machine of kprofd" },
		[WEB_FOREIGN] = { PROBLEM_FOREIGN,
		    "only kprofd's own page may do that: Origin must be "
		    "this server and X-Kprofd be set; programs use kprof, or "
		    "a token (-http-token-file)" },
		[WEB_OTHER_USER] = { PROBLEM_OTHER_USER,
		    "only the user that this server runs as, and root, may "
		    "do that: use kprof as that user, or configure a token "
		    "(-http-token-file)" },
	};

	*why = refused[v].why;
	return refused[v].problem;
}

static bool
token_ok(const char *s)
{
	size_t n = strlen(s);

	for (const char *p = s; *p != '\0'; p++)
		if (!isgraph((unsigned char)*p))
			return false;
	return n >= WEB_TOKEN_MIN && n <= WEB_TOKEN_MAX;
}

static enum kp_err
token_read(const char *path, const char *option, char token[WEB_TOKEN_MAX + 1],
    char *why, size_t n)
{
	char line[WEB_TOKEN_MAX + 3] = "";
	const char *reason;
	struct stat st;
	FILE *f = kp_secret_open(path, &st, &reason);
	bool private;

	if (f == NULL) {
		snprintf(why, n, "cannot read the token file '%s': %s (see %s)",
		    path, reason, option);
		return KP_EIO;
	}
	if (fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	private = kp_secret_is_private(f, &st, path, "the token file", option,
	    why, n);
	fclose(f);
	if (!private)
		return KP_EFORMAT;
	if (!token_ok(line)) {
		snprintf(why, n, "the token file '%s' has no token of %d to %d "
		    "printable characters in its first line", path,
		    WEB_TOKEN_MIN, WEB_TOKEN_MAX);
		return KP_EFORMAT;
	}
	strcpy(token, line);
	return KP_OK;
}

enum kp_err
web_tokens_read(struct web_tokens *t, const char *full, const char *read,
    char *why, size_t n)
{
	enum kp_err err = KP_OK;

	*t = (struct web_tokens){ "", "" };
	if (full != NULL)
		err = token_read(full, "-http-token-file", t->full, why, n);
	if (err == KP_OK && read != NULL)
		err = token_read(read, "-http-read-token-file", t->read, why, n);
	if (err == KP_OK && full != NULL && strcmp(t->full, t->read) == 0) {
		snprintf(why, n, "'%s' and '%s' have the same token: one that "
		    "may only read has to be another", full, read);
		err = KP_EFORMAT;
	}
	return err;
}
