/* analyse.c - kprof analyse FILE: shows a kept trace in any of its forms. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls_show.h"

/* An empty file has no memory to be mapped. */
static int
show_file(const struct calls_args *a, const char *file, int fd)
{
	struct stat st = { .st_size = 0 };
	void *p = NULL;
	int status;

	if (fd < 0 || fstat(fd, &st) < 0) {
		say("cannot read '%s': %s", file, strerror(errno));
		return EXIT_FAILED;
	}
	if (st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
		    0);
	if (p == MAP_FAILED) {
		say("cannot read '%s': %s", file, strerror(errno));
		return EXIT_FAILED;
	}
	status = calls_show(a, p, (size_t)st.st_size, file);
	if (p != NULL)
		munmap(p, (size_t)st.st_size);
	return status;
}

int
cmd_analyse(const struct cmd *cmd, int argc, char **argv)
{
	struct calls_args a = { .least = CALLS_LEAST };
	const char *file = NULL;
	const struct opt opts[] = { OPTS_CALLS(a) };
	int st, fd;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    &file);
	if (st != OPTS_GO_ON)
		return st;
	if (file == NULL)
		return opts_wrong(cmd, "FILE is missing");
	fd = open(file, O_RDONLY | O_CLOEXEC);
	st = show_file(&a, file, fd);
	if (fd >= 0)
		close(fd);
	return st;
}
