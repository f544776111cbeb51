/*
 * channel.h - the bytes of one connection to a node, plain or encrypted.
 *
 * Nothing here blocks.  A channel owns its descriptor.
 */
#ifndef KPROFD_CONN_CHANNEL_H
#define KPROFD_CONN_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kprofd/clock.h"

#define CHANNEL_WHY_MAX 512	/* bytes */
#define CHANNEL_HOW_MAX 64

struct channel;

/* What plain channels (channel.c) and encrypted ones (tls_channel.c) fill in. */
struct channel_kind {
	/* As channel_read() and channel_write(); they set wants, more and why. */
	ssize_t (*read)(struct channel *c, void *to, size_t n);
	ssize_t (*write)(struct channel *c, const void *from, size_t n);
	/* Frees it, without closing the descriptor. */
	void (*free)(struct channel *c);
};

/* The first member of each kind; all but the kinds only read it. */
struct channel {
	const struct channel_kind *kind;
	int fd;
	/*
	 * After CHANNEL_WAIT: POLLIN, POLLOUT, or either of them.  A read may have to
	 * wait until the descriptor can be written.  A write may have to wait for a
	 * read: repeat it after each, with the same bytes, and maybe more after them.
	 */
	short wants;
	/*
	 * The last read left bytes that the descriptor does not announce any more, so
	 * read again without polling.  False once a read gave CHANNEL_WAIT.
	 */
	bool more;
	int err;	/* the errno of what failed; 0: one side refused the other */
	/* What of the peer was not verified though it is encrypted; static; or NULL. */
	const char *doubt;
	char why[CHANNEL_WHY_MAX];	/* after CHANNEL_FAILED: one line for people */
	/* For status: "not encrypted", "TLSv1.3, the node verified". */
	char how[CHANNEL_HOW_MAX];
};

/* Instead of a number of bytes. */
enum {
	CHANNEL_END = 0,	/* the peer closed it */
	CHANNEL_WAIT = -1,	/* wait for what `wants` says, and repeat */
	CHANNEL_FAILED = -2	/* `why` has the reason */
};

/* Takes fd and makes it non-blocking.  NULL: out of memory; fd is closed then. */
struct channel *channel_plain(int fd);
/* Closes and frees.  c may be NULL. */
void channel_free(struct channel *c);

/* Up to n bytes, n > 0; or one of the above. */
ssize_t channel_read(struct channel *c, void *to, size_t n);
/* Never CHANNEL_END.  SIGPIPE is not raised. */
ssize_t channel_write(struct channel *c, const void *from, size_t n);

/* For kinds: keeps the error of a system call as why; its value is CHANNEL_FAILED. */
ssize_t channel_failed(struct channel *c, int err);

/* 0: fd is ready for one of the events of poll(2); ETIMEDOUT; or errno. */
int wait_ready(int fd, short events, kp_mono_ns deadline);

#endif
