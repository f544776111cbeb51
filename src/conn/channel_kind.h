/*
 * channel_kind.h - what the kinds of channels fill in: plain ones (channel.c) and
 * encrypted ones (tls/channel_tls.c).
 */
#ifndef KPROFD_CONN_CHANNEL_KIND_H
#define KPROFD_CONN_CHANNEL_KIND_H

#include "conn/channel.h"

#define CHANNEL_WHY_MAX 512	/* bytes */
#define CHANNEL_HOW_MAX 64

struct channel_kind {
	/* As channel_read() and channel_write(); they set wants, more and why. */
	ssize_t (*read)(struct channel *c, void *to, size_t n);
	ssize_t (*write)(struct channel *c, const void *from, size_t n);
	/* Frees it, without closing the descriptor. */
	void (*free)(struct channel *c);
};

/* The first member of each kind. */
struct channel {
	const struct channel_kind *kind;
	int fd;
	short wants;
	int err;		/* as channel_errno() */
	bool more;
	const char *doubt;	/* as channel_doubt(); static */
	char why[CHANNEL_WHY_MAX], how[CHANNEL_HOW_MAX];
};

/* Keeps the error of a system call as why; its value is CHANNEL_FAILED. */
ssize_t channel_failed(struct channel *c, int err);

#endif
