/*
 * probe_file.c - looks for the library beside the program, then in
 * ../lib/kprofd.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/etf.h"
#include "target/probe_file.h"

/* Installed, lib/kprofd is beside bin. */
const char *
probe_file(char *path, size_t n, const char *name)
{
	char dir[4096], *slash;
	ssize_t len = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	if (len < 0)
		len = 0;
	dir[len] = '\0';
	slash = strrchr(dir, '/');
	if (slash != NULL)
		*slash = '\0';
	snprintf(path, n, "%s/%s", dir, name);
	if (access(path, R_OK) != 0)
		snprintf(path, n, "%s/../lib/kprofd/%s", dir, name);
	return path;
}

void
probe_file_put(struct kp_buf *b, const char *path)
{
	size_t n = strlen(path);

	if (n > 3 && strcmp(path + n - 3, ".so") == 0)
		n -= 3;
	kp_etf_binary(b, path, n);
}
