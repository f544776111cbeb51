/*
 * file_why.c - looks whether it is the file or its directory that is missing, or
 * whether something else than a file is there.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "text/file_why.h"

const char *
file_why(char buf[FILE_WHY_MAX], const char *path, int err)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct stat st;
	bool there;

	snprintf(buf, FILE_WHY_MAX, "%s", strerror(err));
	if (err == ENOENT)
		snprintf(buf, FILE_WHY_MAX, "no such file");
	if (err == ENXIO)	/* of an open that does not wait */
		snprintf(buf, FILE_WHY_MAX, "nobody reads from it");
	if ((err != ENOENT && err != ENOTDIR) || slash == NULL ||
	    slash == path || (size_t)(slash - path) >= sizeof(dir))
		return buf;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	there = stat(dir, &st) == 0;
	if (there && S_ISDIR(st.st_mode))
		return buf;
	snprintf(buf, FILE_WHY_MAX, there || errno == ENOTDIR ?
	    "%s is not a directory" : "directory %s does not exist", dir);
	return buf;
}

const char *
file_special(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
		return NULL;
	return S_ISDIR(st.st_mode) ? "a directory" :
	    S_ISFIFO(st.st_mode) ? "a FIFO" :
	    S_ISSOCK(st.st_mode) ? "a socket" : "a device";
}

const char *
file_not_for_db(char buf[FILE_WHY_MAX], const char *path)
{
	const char *special = file_special(path), *what = NULL;

	if (path[0] == '\0')
		what = "a name is needed";
	else if (path[0] == ':')
		what = "SQLite keeps what has such a name in memory (./ before "
		    "it makes it a file)";
	else if (strncmp(path, "file:", 5) == 0)
		what = "SQLite takes this for a URI (./ before it makes it a "
		    "file)";
	if (what != NULL)
		snprintf(buf, FILE_WHY_MAX, "%s", what);
	else if (special != NULL)
		snprintf(buf, FILE_WHY_MAX, "it is %s, not a file", special);
	else
		return NULL;
	return buf;
}

/* The numbers are those of linux/magic.h, and of the kernel's ceph, lustre and gpfs. */
const char *
file_remote(const char *path)
{
	static const struct {
		uint32_t type;
		const char *name;
	} remote[] = { { 0x6969, "NFS" }, { 0x517b, "SMB" }, { 0xfe534d42, "SMB" },
		{ 0xff534d42, "CIFS" }, { 0x01021997, "9P" }, { 0x5346414f, "AFS" },
		{ 0x00c36400, "Ceph" }, { 0x0bd00bd0, "Lustre" },
		{ 0x47504653, "GPFS" }, { 0x6b414653, "AFS" } };
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct statfs st;

	snprintf(dir, sizeof(dir), "%.*s", slash != NULL ? (int)(slash + 1 - path) : 1,
	    slash != NULL ? path : ".");
	if (statfs(path, &st) != 0 && statfs(dir, &st) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
		if ((uint32_t)st.f_type == remote[i].type)
			return remote[i].name;
	return NULL;
}

const char *
self_path(char *buf, size_t n, const char *name)
{
	ssize_t len = readlink("/proc/self/exe", buf, n - 1);
	char *slash;

	buf[len > 0 ? len : 0] = '\0';
	slash = strrchr(buf, '/');
	if (slash == NULL || (size_t)(slash - buf) + strlen(name) + 2 > n)
		return NULL;
	strcpy(slash + 1, name);
	return buf;
}

const char *
self_program(char *buf, size_t n, const char *name)
{
	const char *path = self_path(buf, n, name);

	return path != NULL && access(path, X_OK) == 0 ? path : name;
}
