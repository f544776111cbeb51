/* output_file.c - writes beside the file of the user, and renames. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "calls/trace_file.h"
#include "output_file.h"
#include "text/file_why.h"

static bool
cannot(const struct output_file *t)
{
	char why[FILE_WHY_MAX];

	say("cannot write '%s': %s", t->name, file_why(why, t->name, errno));
	return false;
}

bool
output_can_be(const char *path, bool db)
{
	const char *slash = strrchr(path, '/');
	char why[FILE_WHY_MAX], *dir;
	int err;

	if (db && file_not_for_db(why, path) != NULL) {
		say("cannot write '%s': %s", path, why);
		return false;
	}
	err = access(path, W_OK) == 0 ? 0 : errno;
	if (err == ENOENT) {
		dir = slash == NULL ? strdup(".") : strndup(path,
		    (size_t)(slash - path) + 1);
		err = dir != NULL && access(dir, W_OK | X_OK) == 0 ? 0 : errno;
		free(dir);
	}
	if (err != 0)
		say("cannot write '%s': %s", path, file_why(why, path, err));
	return err == 0;
}

/* True for a trace, and for an empty file. */
static bool
is_ours(const char *path)
{
	char magic[sizeof(KP_CALLS_MAGIC) - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, magic, sizeof(magic)) : -1;

	if (fd >= 0)
		close(fd);
	return n == 0 || (n == (ssize_t)sizeof(magic) &&
	    memcmp(magic, KP_CALLS_MAGIC, sizeof(magic)) == 0);
}

/* The new file has the permissions of the file that was there. */
static bool
open_beside(struct output_file *t, const char *path, const struct stat *was)
{
	int fd;

	if (asprintf(&t->beside, "%s.%ld.part", path, (long)getpid()) < 0)
		t->beside = NULL;
	t->path = strdup(path);
	if (t->beside == NULL || t->path == NULL) {
		errno = ENOMEM;
		return cannot(t);
	}
	fd = open(t->beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	t->f = fd >= 0 ? fdopen(fd, "w+") : NULL;
	if (t->f != NULL && (was == NULL ||
	    fchmod(fd, was->st_mode & ACCESSPERMS) == 0))
		return true;
	cannot(t);
	if (fd < 0)	/* not made by us, so not to be removed */
		t->beside[0] = '\0';
	else if (t->f == NULL)
		close(fd);
	return false;
}

/* For a pipe, a device, or a link to a file that does not exist yet. */
static bool
open_itself(struct output_file *t, bool there)
{
	t->f = fopen(t->name, there ? "we" : "w+e");
	return t->f != NULL || cannot(t);
}

static bool
open_instead(struct output_file *t, const struct stat *was)
{
	char *path = realpath(t->name, NULL);
	bool good = path != NULL ? open_beside(t, path, was) : cannot(t);

	free(path);
	return good;
}

/*
 * Replaces the file that a link points to, not the link.  It calls stat() first,
 * since the path of a pipe in /proc can be opened, but not resolved.
 */
bool
output_file_open(struct output_file *t, const char *name)
{
	struct stat st, link;
	int fd;

	*t = (struct output_file){ .name = name != NULL ? name : "the trace" };
	if (name == NULL) {
		t->f = tmpfile();
		/* In a container /tmp may be read-only: in memory, as all there may be. */
		if (t->f == NULL && (fd = memfd_create("trace", MFD_CLOEXEC)) >= 0 &&
		    (t->f = fdopen(fd, "w+")) == NULL)
			close(fd);
		return t->f != NULL || cannot(t);
	}
	if (stat(name, &st) != 0)
		return lstat(name, &link) == 0 ? open_itself(t, false) :
		    open_beside(t, name, NULL);
	if (!S_ISREG(st.st_mode))
		return open_itself(t, true);
	if (is_ours(name))
		return open_instead(t, &st);
	say("'%s' is there, and is not a trace: give another name, or take it "
	    "away", name);
	return false;
}

bool
output_file_keep(struct output_file *t)
{
	if (fflush(t->f) != 0 ||
	    (t->beside != NULL && rename(t->beside, t->path) != 0))
		return cannot(t);
	free(t->beside);
	t->beside = NULL;
	return true;
}

void
output_file_close(struct output_file *t)
{
	if (t->f != NULL)
		fclose(t->f);
	if (t->beside != NULL && t->beside[0] != '\0')
		unlink(t->beside);
	free(t->beside);
	free(t->path);
	*t = (struct output_file){ .name = t->name };
}
