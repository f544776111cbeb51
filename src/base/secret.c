/* secret.c - see the header. */
#include <string.h>

#include "kprofd/secret.h"

/*
 * systemd keeps a service's credentials in a directory that only it can
 * enter, and lets its user read them by an ACL, whose mask shows where the
 * group's bits are.  Source: systemd.exec(5), LoadCredential=.
 */
unsigned
kp_secret_mode_bad(const char *path, const char *credentials)
{
	size_t n = credentials != NULL ? strlen(credentials) : 0;

	if (n > 0 && strncmp(path, credentials, n) == 0 && path[n] == '/' &&
	    strchr(path + n + 1, '/') == NULL)
		return 037;
	return 077;
}
