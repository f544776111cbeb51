/*
 * secret.c - opens a secret's file only if it is a regular one, and returns
 * the permission bits that it must not have.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/secret.h"

/*
 * systemd keeps a service's credentials in a directory that only the service
 * can enter.  An ACL lets its user read them; the mask of the ACL appears as
 * the group's bits.  Source: systemd.exec(5), LoadCredential=.
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

static const char *
kind_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "it is a FIFO, not a regular file";
	case S_IFDIR:
		return "it is a directory, not a regular file";
	case S_IFCHR:
	case S_IFBLK:
		return "it is a device, not a regular file";
	default:
		return "it is not a regular file";
	}
}

/* open(2) fails with ENXIO for a socket. */
FILE *
kp_secret_open(const char *path, struct stat *st, const char **why)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	FILE *f = NULL;

	if (fd < 0 || fstat(fd, st) != 0) {
		*why = errno == ENXIO ? "it is a socket, not a regular file" :
		    strerror(errno);
	} else if (!S_ISREG(st->st_mode)) {
		*why = kind_name(st->st_mode);
	} else {
		f = fdopen(fd, "r");
		if (f != NULL)
			return f;
		*why = strerror(errno);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}
