/*
 * ctl_socket.c - the client's side of the control socket:
 *
 *	client:	<command>\n<text>	most commands have no text
 *	kprofd:	<kind> <length>\n<text>	any number, such as "note": progress
 *		ok <length>\n<text>	or "error": the answer, then it closes
 *
 * Whatever the other side sends, no more than r->most bytes of it are taken, and
 * no longer than r->patience is waited.  After r->quiet the caller may report
 * that it waits; a daemon that is stopped (SIGSTOP) is not waited for.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/utf8.h"
#include "client/ctl_socket.h"

#define HEAD_MAX 64u		/* of "note <length>" */
#define KIND_MAX 16u

struct ctl {
	const struct ctl_request *r;
	int fd;
	kp_mono_ns deadline;
	kp_mono_ns quiet;	/* when it is silent for long; 0: was reported */
	size_t left;		/* bytes that the daemon may still send */
	char *why;
	size_t nwhy;
};

static enum kp_err
fail(const struct ctl *c, enum kp_err err, const char *what)
{
	snprintf(c->why, c->nwhy, "kprofd at '%s' %s", c->r->path, what);
	return err;
}

static enum kp_err
unreachable(const struct ctl *c, int error)
{
	if (error == EACCES || error == EPERM)
		snprintf(c->why, c->nwhy, "cannot reach kprofd at '%s': %s "
		    "(its user or root may)", c->r->path, strerror(error));
	else
		snprintf(c->why, c->nwhy, "cannot reach kprofd at '%s': is it "
		    "running? (see %s)", c->r->path, c->r->see);
	return KP_ENOENT;
}

static enum kp_err
ctl_open(struct ctl *c)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval limit = { c->r->patience, 0 };

	if (strlen(c->r->path) >= sizeof(sun.sun_path)) {
		snprintf(c->why, c->nwhy, "the socket's path '%s' is longer "
		    "than %zu bytes: change to its directory, or see %s",
		    c->r->path, sizeof(sun.sun_path) - 1, c->r->see);
		return KP_ELIMIT;
	}
	memcpy(sun.sun_path, c->r->path, strlen(c->r->path) + 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return unreachable(c, errno);
	/* limits connect(): a daemon that hangs accepts nothing */
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
		return errno == EAGAIN ? fail(c, KP_ETIMEOUT,
		    "does not answer") : unreachable(c, errno);
	c->deadline = kp_mono_now() + c->r->patience * KP_NS_PER_S;
	c->quiet = c->r->quiet > 0 ? kp_mono_now() + c->r->quiet : 0;
	return KP_OK;
}

/* A daemon that refuses a command may not wait for its text. */
static enum kp_err
ctl_send(struct ctl *c)
{
	size_t sent = 0;
	ssize_t r;

	for (; sent < c->r->n; sent += (size_t)r) {
		r = send(c->fd, c->r->bytes + sent, c->r->n - sent,
		    MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			r = 0;
		else if (r < 0 && errno == EAGAIN)
			return fail(c, KP_ETIMEOUT, "does not answer");
		else if (r <= 0)
			return fail(c, KP_EIO, "takes no command: is it "
			    "ending?");
	}
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
	if (c->r->on_quiet != NULL)
		c->r->on_quiet(c->r->ctx, c->r->path);
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
		return fail(c, KP_ELIMIT, "answers too much");
	c->left -= *len;
	return KP_OK;
bad:
	return fail(c, KP_EFORMAT, "answers what is not understood: are "
	    "both of one version?");
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

static enum kp_err
ctl_answer(struct ctl *c, struct kp_buf *answer)
{
	enum kp_err err;
	char kind[KIND_MAX];
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
		if (!c->r->on_message(c->r->ctx, kind, answer))
			return fail(c, KP_EFORMAT,
			    "answers with an unknown word");
		if (c->r->each)
			c->deadline = kp_mono_now() +
			    c->r->patience * KP_NS_PER_S;
	}
}

bool
ctl_line(char line[CTL_LINE_MAX], const char *command, const char *globs)
{
	size_t n = (size_t)snprintf(line, CTL_LINE_MAX, "%s", command), len;

	for (; globs != NULL && *globs != '\0' && n < CTL_LINE_MAX; globs += len) {
		globs += *globs == ' ';
		len = strcspn(globs, " ");
		n += (size_t)snprintf(line + n, CTL_LINE_MAX - n, " node=%.*s",
		    (int)len, globs);
	}
	return n < CTL_LINE_MAX;
}

const char *
ctl_mark_wrong(const char *text)
{
	size_t n = strlen(text), len;
	uint32_t c;

	if (strspn(text, " ") == n)
		return "is empty";
	if (n > CTL_MARK_MAX)
		return "is longer than 256 bytes";
	for (; n > 0; text += len, n -= len) {
		c = utf8_next(text, n, &len);
		if (c == UTF8_BAD)
			return "is not UTF-8";
		if (utf8_unsafe(c))
			return "has a control character";
	}
	return NULL;
}

/* The text comes last, since it may have blanks. */
bool
ctl_line_mark(char line[CTL_LINE_MAX], const char *text)
{
	size_t n = strlen(line);

	return snprintf(line + n, CTL_LINE_MAX - n, " text=%s", text) <
	    (int)(CTL_LINE_MAX - n);
}

enum kp_err
ctl_request(const struct ctl_request *r, struct kp_buf *answer, char *why,
    size_t n)
{
	struct ctl c = { .r = r, .fd = -1, .left = r->most, .why = why,
		.nwhy = n };
	enum kp_err err = ctl_open(&c), sent;

	sent = err == KP_OK ? ctl_send(&c) : err;
	/* its answer may say why it took no more */
	if (err == KP_OK)
		err = ctl_answer(&c, answer);
	if (sent != KP_OK && err != KP_OK && err != KP_ESTATE)
		err = sent;
	if (c.fd >= 0)
		close(c.fd);
	return err;
}
