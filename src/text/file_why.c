/* file_why.c - looks whether it is the file or its directory that is missing. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
