/*
 * check_message.h - what kprofd -check -control sends to the daemon that it asks,
 * behind the line of its command.  Pure.
 *
 *	MS PATH\n		a check: how long to count, the file's name,
 *	NODE\n ...\n\n		the targets (none: all), then the file's text
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_MESSAGE_H
#define KPROFD_DAEMON_CHECK_CHECK_MESSAGE_H

#include "kprofd/config.h"
#include "kprofd/nodes.h"

#define CHECK_NODES_MAX 64
#define CHECK_PATH_MAX 1024	/* bytes; of a longer one the beginning is sent */
#define CHECK_MS_MIN 100u
#define CHECK_MS_MAX 600000u
#define CHECK_MESSAGE_MAX (KP_CONF_SIZE_MAX + \
	(CHECK_NODES_MAX + 1) * (KP_NODE_NAME_MAX + 1) + CHECK_PATH_MAX + 16)
#define CHECK_ANSWER_MAX (4u << 20)	/* bytes of all of an answer */

struct check_message {
	unsigned ms;
	char path[CHECK_PATH_MAX + 1];	/* for messages, and never opened */
	char nodes[CHECK_NODES_MAX][KP_NODE_NAME_MAX + 1];
	unsigned nnodes;
	const char *text;	/* borrowed of what was read */
	size_t n;
};

void check_message_put(struct kp_buf *b, unsigned ms, const char *path,
    const char *const *nodes, unsigned nnodes, const char *text, size_t n);
/* False: it makes no sense. */
bool check_message_read(struct check_message *m, const char *p, size_t n);

#endif
