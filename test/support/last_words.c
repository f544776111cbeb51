/*
 * last_words.c - preloaded in front of libc's: once the file that $LAST_WORDS
 * names holds "N HALF", the process is killed at the N-th message that it
 * sends, of which half goes out if HALF is 1, and nothing if it is 0.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Is this the last one?  Then *half is set. */
static int
is_last(int *half)
{
	static int seen;
	const char *path = getenv("LAST_WORDS");
	FILE *f = path != NULL ? fopen(path, "r") : NULL;
	int n = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%d %d", &n, half) != 2)
		n = 0;
	fclose(f);
	return ++seen == n;
}

ssize_t
send(int fd, const void *p, size_t n, int flags)
{
	ssize_t (*real)(int, const void *, size_t, int);
	int half = 0;

	*(void **)&real = dlsym(RTLD_NEXT, "send");
	if (is_last(&half)) {
		if (half)
			real(fd, p, n / 2, flags);
		kill(getpid(), SIGKILL);
		pause();
	}
	return real(fd, p, n, flags);
}
