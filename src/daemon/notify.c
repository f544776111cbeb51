/*
 * notify.c - sends a datagram for each change: READY, STOPPING, STATUS.  If it
 * cannot be sent within a second, it is dropped.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/notify.h"
#include "text/text.h"

#define STATUS_MAX 2048	/* bytes */

static void
notify_send(const char *p, size_t n)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	struct timeval limit = { 1, 0 };
	size_t len = path != NULL ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(sun.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (path[0] == '@')
		sun.sun_path[0] = '\0';		/* Linux's abstract names */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)sendto(fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&sun,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

bool
notify_is_wanted(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

void
notify_ready(void)
{
	notify_send("READY=1", strlen("READY=1"));
}

void
notify_stopping(void)
{
	notify_send("STOPPING=1", strlen("STOPPING=1"));
}

void
notify_status(const char *state, const char *text)
{
	struct kp_buf b;

	kp_buf_init(&b, STATUS_MAX);
	kp_buf_str(&b, "STATUS=");
	text_put(&b, state);
	if (text[0] != '\0') {
		kp_buf_str(&b, ": ");
		text_put(&b, text);
	}
	if (b.err == KP_OK)
		notify_send((const char *)b.p, b.len);
	kp_buf_free(&b);
}
