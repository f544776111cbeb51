/*
 * wait.c - poll(2), which signals interrupt.
 */
#include <errno.h>
#include <poll.h>

#include "conn/wait.h"

int
wait_ready(int fd, short events, kp_mono_ns deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	kp_dur_ns left;
	int r = -1;

	errno = EINTR;
	while (r < 0 && errno == EINTR) {
		left = deadline - kp_mono_now();
		if (left <= 0)
			return ETIMEDOUT;
		r = poll(&p, 1, (int)(left / KP_NS_PER_MS) + 1);
	}
	return r < 0 ? errno : r == 0 ? ETIMEDOUT : 0;
}
