/*
 * slow_reader.c - preloaded in front of libc's: while the file that
 * $SLOW_READER names is there, what was received is handled 300 ms late.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	ssize_t (*real)(int, void *, size_t, int);
	const char *file = getenv("SLOW_READER");
	ssize_t r;

	*(void **)&real = dlsym(RTLD_NEXT, "recv");
	r = real(fd, p, n, flags);
	if (r > 0 && file != NULL && access(file, F_OK) == 0)
		usleep(300000);
	return r;
}
