/*
 * secret.c - opens a secret's file only if it is a regular one, and says who
 * may read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kprofd/secret.h"

/*
 * systemd keeps a service's credentials in a directory that only the service
 * can enter.  An ACL lets its user read them; the mask of the ACL appears as
 * the group's bits.  Source: systemd.exec(5), LoadCredential=.
 */
static bool
is_credential(const char *path, const char *credentials)
{
	size_t n = credentials != NULL ? strlen(credentials) : 0;

	return n > 0 && strncmp(path, credentials, n) == 0 && path[n] == '/' &&
	    strchr(path + n + 1, '/') == NULL;
}

static bool
group_is_ours(gid_t gid)
{
	gid_t groups[256];
	int n;

	if (gid == getegid())
		return true;
	n = getgroups(sizeof(groups) / sizeof(groups[0]), groups);
	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

/* Root may read every file anyway. */
static bool
is_other(uid_t uid)
{
	return uid != 0 && uid != geteuid();
}

/*
 * Who else is in the group, as far as the databases of users know: its members in the
 * one of groups, and those whose first group it is in passwd(5), whose other sources
 * could be slow to list.  A group that is in neither, as in a container, is ours alone.
 */
static bool
group_has_others(gid_t gid)
{
	struct group g, *found = NULL;
	struct passwd u, *one = NULL;
	char buf[16384];
	bool others;
	FILE *f;

	/* One with more members than there is room for has others. */
	others = getgrgid_r(gid, &g, buf, sizeof(buf), &found) == ERANGE;
	for (char **m = found != NULL ? g.gr_mem : NULL; m != NULL &&
	    *m != NULL && !others; m++) {
		char user[4096];

		if (getpwnam_r(*m, &u, user, sizeof(user), &one) != 0 ||
		    one == NULL || is_other(u.pw_uid))
			others = true;
	}
	f = others ? NULL : fopen("/etc/passwd", "re");
	while (f != NULL && !others &&
	    fgetpwent_r(f, &u, buf, sizeof(buf), &one) == 0)
		others = u.pw_gid == gid && is_other(u.pw_uid);
	if (f != NULL)
		fclose(f);
	return others;
}

/* Names others than us and root who may read it; NULL: nobody may. */
static const char *
readers(FILE *f, const struct stat *st, const char *path)
{
	if ((st->st_mode & 07) != 0)
		return "everybody";
	if ((st->st_mode & 020) != 0)
		return "its group, which may also change it";
	if ((st->st_mode & 040) == 0 ||
	    is_credential(path, getenv("CREDENTIALS_DIRECTORY")))
		return NULL;
	if (is_other(st->st_uid))
		return "another user, who owns it, and by its group";
	/* With an ACL, the group bits of the mode are its mask. */
	if (fgetxattr(fileno(f), "system.posix_acl_access", NULL, 0) > 0)
		return "those whom its ACL names";
	if (!group_is_ours(st->st_gid))
		return "its group, to which this process does not belong";
	return group_has_others(st->st_gid) ? "others in its group" : NULL;
}

bool
kp_secret_is_private(FILE *f, const struct stat *st, const char *path,
    const char *kind, const char *option, char *why, size_t whylen)
{
	const char *who = readers(f, st, path);

	if (who == NULL)
		return true;
	snprintf(why, whylen, "%s '%s' can be read by %s (chmod 600 it, or copy "
	    "it with install -m 600 and name the copy with %s%s)", kind, path,
	    who, option, (st->st_mode & 027) != 0 ? "" : ", or, if nobody else "
	    "is in that group, set CREDENTIALS_DIRECTORY to its directory");
	return false;
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
