/*
 * clock_jump.c - preloaded in front of libc's: a clock that is set.  The file
 * that $CLOCK_JUMP names has by how many seconds, as 8 bytes of the machine's
 * order, whenever it is asked; the monotonic clock goes on as it does.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, id, ts);
	const char *file = getenv("CLOCK_JUMP");
	int64_t jump;
	int fd;

	if (r != 0 || id != CLOCK_REALTIME || file == NULL)
		return r;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return r;
	if (pread(fd, &jump, sizeof(jump), 0) == sizeof(jump))
		ts->tv_sec += jump;
	close(fd);
	return r;
}
