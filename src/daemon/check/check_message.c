/* check_message.c - writes and reads the text of a check, line by line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/check/check_message.h"

struct lines {
	const char *p;
	size_t n;
};

/* Takes a line without its newline.  False: there is none, or it is too long. */
static bool
take_line(struct lines *l, char *line, size_t max)
{
	const char *nl = memchr(l->p, '\n', l->n);
	size_t n = nl != NULL ? (size_t)(nl - l->p) : 0;

	if (nl == NULL || n >= max || memchr(l->p, '\0', n) != NULL)
		return false;
	memcpy(line, l->p, n);
	line[n] = '\0';
	l->p += n + 1;
	l->n -= n + 1;
	return true;
}

/* Takes a number and the blank behind it, unless the line ends. */
static bool
take_number(char **at, uint64_t max, uint64_t *to)
{
	uint64_t value = 0;
	char *s = *at;

	for (; *s >= '0' && *s <= '9'; s++) {
		value = 10 * value + (uint64_t)(*s - '0');
		if (value > max)
			return false;
	}
	if (s == *at || (*s != ' ' && *s != '\0'))
		return false;
	*at = s + (*s == ' ');
	*to = value;
	return true;
}

void
check_message_put(struct kp_buf *b, unsigned ms, const char *path,
    const char *const *nodes, unsigned nnodes, const char *text, size_t n)
{
	char node[KP_NODE_NAME_MAX + 1];

	kp_buf_printf(b, "%u ", ms);
	/* a path must not end its line */
	for (size_t i = 0; path[i] != '\0' && i < CHECK_PATH_MAX; i++)
		kp_buf_u8(b, path[i] == '\n' ? '?' : (uint8_t)path[i]);
	kp_buf_u8(b, '\n');
	for (unsigned i = 0; i < nnodes; i++)
		kp_buf_printf(b, "%s\n", kp_node_bare(nodes[i], node));
	kp_buf_u8(b, '\n');
	kp_buf_put(b, text, n);
}

static bool
take_nodes(struct check_message *m, struct lines *l)
{
	char line[KP_NODE_NAME_MAX + 2];
	struct kp_node_at at;

	for (m->nnodes = 0;; m->nnodes++) {
		if (!take_line(l, line, sizeof(line)))
			return false;
		if (line[0] == '\0')
			return true;
		/* Ports are kprofd's to know. */
		if (m->nnodes == CHECK_NODES_MAX ||
		    kp_node_split(line, strlen(line), &at) != NULL ||
		    strcmp(at.node, line) != 0)
			return false;
		memcpy(m->nodes[m->nnodes], line, strlen(line) + 1);
	}
}

bool
check_message_read(struct check_message *m, const char *p, size_t n)
{
	char line[CHECK_PATH_MAX + 16], *at = line;
	struct lines l = { p, n };
	uint64_t ms;

	if (!take_line(&l, line, sizeof(line)) ||
	    !take_number(&at, CHECK_MS_MAX, &ms) || ms < CHECK_MS_MIN ||
	    strlen(at) > CHECK_PATH_MAX || !take_nodes(m, &l) ||
	    l.n > KP_CONF_SIZE_MAX || memchr(l.p, '\0', l.n) != NULL)
		return false;
	memcpy(m->path, at, strlen(at) + 1);
	m->ms = (unsigned)ms;
	m->text = l.p;
	m->n = l.n;
	return true;
}
