/*
 * ctl_client.c - sends one command to the daemon through its control socket.
 *
 *	kprof:	<command>\n
 *	kprofd:	note <length>\n<text>	any number: progress
 *		ok <length>\n<text>	or "error": the answer, then it closes
 *
 * Whatever the other side sends, kprof takes no more than ANSWER_MAX bytes, and
 * waits at most SILENCE_S seconds for the next message, or as long as the caller
 * allows in all.  After QUIET it prints that it is waiting; it does not wait for
 * a daemon that is stopped (SIGSTOP).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "kprofd/clock.h"
#include "kprofd/nodes.h"
#include "text/text.h"

#define ANSWER_MAX (1u << 20)	/* bytes of all messages together */
#define HEAD_MAX 64u		/* of "note <length>" */
#define SILENCE_S 30
#define QUIET (3 * KP_NS_PER_S / 2)	/* before it prints that it waits */

struct ctl {
	const char *path;
	int fd;
	kp_mono_ns deadline;
	kp_mono_ns quiet;	/* when to print that it waits; 0: was printed */
	size_t left;		/* bytes that the daemon may still send */
	unsigned patience;	/* s: with notes for each message, else in all */
	bool notes;		/* to be printed */
	char *why;
	size_t nwhy;
};

static enum kp_err
fail(const struct ctl *c, enum kp_err err, const char *what)
{
	snprintf(c->why, c->nwhy, "kprofd at '%s' %s", c->path, what);
	return err;
}

static enum kp_err
unreachable(const struct ctl *c, int error)
{
	if (error == EACCES || error == EPERM)
		snprintf(c->why, c->nwhy, "cannot reach kprofd at '%s': %s "
		    "(its user or root may)", c->path, strerror(error));
	else
		snprintf(c->why, c->nwhy, "cannot reach kprofd at '%s': is it "
		    "running? (see -db, -control)", c->path);
	return KP_ENOENT;
}

static enum kp_err
ctl_open(struct ctl *c)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval limit = { c->patience, 0 };

	if (strlen(c->path) >= sizeof(sun.sun_path)) {
		snprintf(c->why, c->nwhy, "the socket's path '%s' is longer "
		    "than %zu bytes: change to its directory, or see -control",
		    c->path, sizeof(sun.sun_path) - 1);
		return KP_ELIMIT;
	}
	memcpy(sun.sun_path, c->path, strlen(c->path) + 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return unreachable(c, errno);
	/* limits connect(): a daemon that hangs accepts nothing */
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
		return errno == EAGAIN ? fail(c, KP_ETIMEOUT,
		    "does not answer") : unreachable(c, errno);
	c->deadline = kp_mono_now() + c->patience * KP_NS_PER_S;
	c->quiet = c->notes ? kp_mono_now() + QUIET : 0;
	return KP_OK;
}

static enum kp_err
ctl_send(struct ctl *c, const char *command)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s\n", command);

	if (send(c->fd, line, (size_t)n, MSG_NOSIGNAL) != n)
		return fail(c, KP_EIO, "takes no command: is it ending?");
	return KP_OK;
}

/* Source: proc_pid_stat(5): "PID (COMMAND) STATE ...". */
static bool
is_stopped(pid_t pid)
{
	char path[40], line[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	if (fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	fclose(f);
	state = strrchr(line, ')');
	return state != NULL && (strncmp(state, ") T", 3) == 0 ||
	    strncmp(state, ") t", 3) == 0);
}

/* The daemon has been silent for a while: finds out why, where it can. */
static enum kp_err
ctl_silent(struct ctl *c)
{
	struct ucred peer = { .pid = 0 };
	socklen_t n = sizeof(peer);
	char what[120];

	c->quiet = 0;
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	    peer.pid > 0 && is_stopped(peer.pid)) {
		snprintf(what, sizeof(what), "does not answer: its process %d "
		    "is stopped ('kill -CONT %d' lets it go on)",
		    (int)peer.pid, (int)peer.pid);
		return fail(c, KP_ETIMEOUT, what);
	}
	say("waiting for kprofd at '%s' to answer", c->path);
	return KP_OK;
}

/* Waits until there is something to read, or too much time has passed. */
static enum kp_err
ctl_wait(struct ctl *c)
{
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	kp_mono_ns now = kp_mono_now(), until = c->deadline;

	if (now >= until)
		return fail(c, KP_ETIMEOUT, "does not answer in time");
	if (c->quiet != 0 && c->quiet < until)
		until = c->quiet;
	if (poll(&pfd, 1, now >= until ? 0 : (int)((until - now) /
	    KP_NS_PER_MS) + 1) == 0 && c->quiet != 0)
		return ctl_silent(c);
	return KP_OK;
}

/* Reads 1 to n bytes before the deadline. */
static enum kp_err
ctl_recv(struct ctl *c, char *p, size_t n, size_t *got)
{
	enum kp_err err;
	ssize_t r;

	for (;;) {
		err = ctl_wait(c);
		if (err != KP_OK)
			return err;
		r = recv(c->fd, p, n, MSG_DONTWAIT);
		if (r > 0)
			break;
		if (r == 0)
			return fail(c, KP_ESHORT, "closed the connection "
			    "before its answer was complete");
		if (errno != EAGAIN && errno != EINTR)
			return fail(c, KP_EIO, strerror(errno));
	}
	*got = (size_t)r;
	return KP_OK;
}

/* Reads "ok 12\n" byte by byte, to leave the text that follows. */
static enum kp_err
read_head(struct ctl *c, char *kind, size_t nkind, size_t *len)
{
	char line[HEAD_MAX + 1], *blank, *end;
	enum kp_err err;
	size_t n = 0, got;

	for (;;) {
		err = ctl_recv(c, line + n, 1, &got);
		if (err != KP_OK)
			return err;
		if (line[n] == '\n')
			break;
		if (++n == HEAD_MAX)
			goto bad;
	}
	line[n] = '\0';
	blank = strchr(line, ' ');
	if (blank == NULL || (size_t)(blank - line) >= nkind ||
	    blank[1] < '0' || blank[1] > '9')
		goto bad;
	*blank = '\0';
	strcpy(kind, line);
	*len = strtoull(blank + 1, &end, 10);
	if (*end != '\0')
		goto bad;
	if (*len > c->left)
		return fail(c, KP_ELIMIT, "answers more than 1 MiB");
	c->left -= *len;
	return KP_OK;
bad:
	return fail(c, KP_EFORMAT, "answers what kprof does not understand: "
	    "are both of one version?");
}

static enum kp_err
read_text(struct ctl *c, size_t len, struct kp_buf *b)
{
	char piece[4096];
	enum kp_err err;
	size_t got;

	kp_buf_reset(b);
	for (; len > 0; len -= got) {
		err = ctl_recv(c, piece, len < sizeof(piece) ? len :
		    sizeof(piece), &got);
		if (err != KP_OK)
			return err;
		kp_buf_put(b, piece, got);
	}
	return b->err == KP_OK ? KP_OK : fail(c, b->err, "answers too much");
}

static void
put_lines(struct kp_buf *out, const struct kp_buf *text)
{
	text_put_lines(out, (const char *)text->p, text->len);
	if (text->len > 0 && text->p[text->len - 1] != '\n')
		kp_buf_u8(out, '\n');
}

static void
print_note(const struct kp_buf *note)
{
	struct kp_buf b;

	kp_buf_init(&b, 8 * ANSWER_MAX);
	put_lines(&b, note);
	fputs(kp_buf_cstr(&b), stderr);
	kp_buf_free(&b);
}

static enum kp_err
ctl_answer(struct ctl *c, struct kp_buf *answer)
{
	enum kp_err err;
	char kind[8];
	size_t len;

	for (;;) {
		err = read_head(c, kind, sizeof(kind), &len);
		if (err == KP_OK)
			err = read_text(c, len, answer);
		if (err != KP_OK)
			return err;
		if (strcmp(kind, "ok") == 0)
			return KP_OK;
		if (strcmp(kind, "error") == 0) {
			snprintf(c->why, c->nwhy, "%s", kp_buf_cstr(answer));
			c->why[strcspn(c->why, "\n")] = '\0';
			return KP_ESTATE;
		}
		if (strcmp(kind, "note") != 0)
			return fail(c, KP_EFORMAT,
			    "answers with an unknown word");
		if (!c->notes)
			continue;
		print_note(answer);
		c->deadline = kp_mono_now() + c->patience * KP_NS_PER_S;
	}
}

bool
daemon_line(char *line, size_t n, const char *command, const char *node)
{
	if (node != NULL && (strlen(node) > KP_NODE_NAME_MAX ||
	    strpbrk(node, " \t\n") != NULL)) {
		say("-node '%s' can match no node: it has a blank in it, or "
		    "more than %d bytes", node, KP_NODE_NAME_MAX);
		return false;
	}
	snprintf(line, n, "%s%s%s", command, node != NULL ? " node=" : "",
	    node != NULL ? node : "");
	return true;
}

enum kp_err
daemon_ask(const struct place *p, const char *command, unsigned seconds,
    struct kp_buf *answer, char *why, size_t n)
{
	struct ctl c = { .fd = -1, .left = ANSWER_MAX, .why = why, .nwhy = n,
		.patience = seconds > 0 ? seconds : SILENCE_S,
		.notes = seconds == 0 };
	char *path = NULL;
	enum kp_err err;

	if (p->control == NULL && asprintf(&path, "%s.sock",
	    place_dbs(p).v[0]) < 0) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	c.path = p->control != NULL ? p->control : path;
	err = ctl_open(&c);
	if (err == KP_OK)
		err = ctl_send(&c, command);
	if (err == KP_OK)
		err = ctl_answer(&c, answer);
	if (c.fd >= 0)
		close(c.fd);
	free(path);
	return err;
}

enum kp_err
daemon_put(const struct place *p, const char *command, bool json,
    struct kp_buf *out, char *why, size_t n)
{
	struct kp_buf answer;
	enum kp_err err;

	kp_buf_init(&answer, OUTPUT_MAX);
	err = daemon_ask(p, command, 0, &answer, why, n);
	if (err == KP_OK && json)
		kp_buf_put(out, answer.p, answer.len);
	else if (err == KP_OK)
		put_lines(out, &answer);
	kp_buf_free(&answer);
	return err;
}
