/*
 * cookie.c - the file of the cookie, and who may read it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/secret.h"
#include "conn/cookie.h"

static enum kp_err
cookie_read(const char *path, char *cookie, char *why, size_t n)
{
	const char *reason;
	struct stat st;
	size_t len;
	FILE *f;

	f = kp_secret_open(path, &st, &reason);
	if (f == NULL) {
		snprintf(why, n, "cannot read the cookie file '%s': %s "
		    "(see -cookie-file)", path, reason);
		return KP_EIO;
	}
	if (!kp_secret_is_private(f, &st, path, "cookie file", "-cookie-file",
	    why, n)) {
		fclose(f);
		return KP_ESTATE;
	}
	len = fread(cookie, 1, NODE_COOKIE_MAX, f);
	fclose(f);
	cookie[len] = '\0';
	cookie[strcspn(cookie, "\r\n")] = '\0';
	if (cookie[0] == '\0') {
		snprintf(why, n, "cookie file '%s' is empty", path);
		return KP_EFORMAT;
	}
	return KP_OK;
}

const char *
node_cookie_path(const char *file, char buf[NODE_COOKIE_PATH_MAX])
{
	const char *home = getenv("HOME");

	if (file == NULL)
		file = getenv("KPROFD_COOKIE_FILE");
	if (file != NULL && file[0] != '\0')
		return file;
	snprintf(buf, NODE_COOKIE_PATH_MAX, "%s/.erlang.cookie",
	    home != NULL ? home : "");
	return buf;
}

enum kp_err
node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1], char *why,
    size_t whylen)
{
	char path[NODE_COOKIE_PATH_MAX];

	return cookie_read(node_cookie_path(file, path), cookie, why, whylen);
}
