/* check_message.c - writes and reads messages about a check, line by line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/check/check_message.h"

#define LINE_BYTES 2048		/* a diagnostic has 1024 bytes at most */
#define NO_NODE "-"

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

/* Neither a path nor a diagnostic may end its line. */
static void
put_in_line(struct kp_buf *b, const char *s, size_t max)
{
	for (size_t i = 0; s[i] != '\0' && i < max; i++)
		kp_buf_u8(b, s[i] == '\n' ? '?' : (uint8_t)s[i]);
}

/* ---- a check ---- */

void
check_message_put(struct kp_buf *b, unsigned ms, const char *path,
    const char *const *nodes, unsigned nnodes, const char *text, size_t n)
{
	char node[KP_NODE_NAME_MAX + 1];

	kp_buf_printf(b, "%u ", ms);
	put_in_line(b, path, CHECK_PATH_MAX);
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

/* ---- diagnostics ---- */

void
check_diags_put(struct kp_buf *b, const struct kp_diags *diags,
    const char *node)
{
	const struct kp_diag *d;

	kp_buf_printf(b, "%s %zu\n", node != NULL ? node : NO_NODE,
	    diags->errors);
	for (d = diags->v; d < diags->v + diags->n; d++) {
		kp_buf_printf(b, "%" PRIu32 " %" PRIu32 " %s ", d->pos.line,
		    d->pos.col, d->warning ? "warning" : "error");
		put_in_line(b, d->text, SIZE_MAX);
		kp_buf_u8(b, '\n');
	}
}

static bool
take_kind(char **at, bool *warning)
{
	static const char w[] = "warning ", e[] = "error ";

	*warning = strncmp(*at, w, strlen(w)) == 0;
	if (!*warning && strncmp(*at, e, strlen(e)) != 0)
		return false;
	*at += strlen(*warning ? w : e);
	return true;
}

static bool
take_diag(struct kp_diags *diags, char *at)
{
	uint64_t line, col;
	bool warning;

	if (!take_number(&at, UINT32_MAX, &line) ||
	    !take_number(&at, UINT32_MAX, &col) || !take_kind(&at, &warning))
		return false;
	kp_diags_add(diags, (struct kp_pos){ (uint32_t)line, (uint32_t)col },
	    warning, "%s", at);
	return true;
}

static bool
take_node(char node[KP_NODE_NAME_MAX + 1], char **at)
{
	size_t n = strcspn(*at, " ");

	if ((*at)[n] == '\0' || n > KP_NODE_NAME_MAX)
		return false;
	snprintf(node, KP_NODE_NAME_MAX + 1, "%.*s", (int)n, *at);
	*at += n + 1;
	if (strcmp(node, NO_NODE) == 0)
		node[0] = '\0';
	else if (!kp_node_name_ok(node, n))
		return false;
	return true;
}

bool
check_diags_read(struct kp_diags *diags, char node[KP_NODE_NAME_MAX + 1],
    const char *p, size_t n)
{
	char line[LINE_BYTES], *at = line;
	struct lines l = { p, n };
	uint64_t errors;

	*diags = (struct kp_diags){ 0 };
	if (!take_line(&l, line, sizeof(line)) || !take_node(node, &at) ||
	    !take_number(&at, SIZE_MAX / 16, &errors))
		return false;
	while (l.n > 0)
		if (!take_line(&l, line, sizeof(line)) ||
		    !take_diag(diags, line))
			return false;
	if (errors < diags->errors)
		return false;
	diags->errors = errors;		/* KP_DIAG_MAX are sent */
	return true;
}
