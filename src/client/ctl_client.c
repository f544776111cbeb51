/*
 * ctl_client.c - one question to the daemon through its control socket.
 *
 *	we:	<command>\n
 *	it:	note <length>\n<text>	any number: how it goes
 *		ok <length>\n<text>	or "error": the answer, then it closes
 *
 * Whatever the other side sends, it takes no more than ANSWER_MAX bytes, and
 * waits no more than SILENCE_S seconds for the next message, nor longer in all
 * than the caller allows.  After a moment it prints what it waits for; it does
 * not wait for a daemon that was stopped (SIGSTOP).
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
#define QUIET (3 * KP_NS_PER_S / 2)	/* then it is said what is waited for */

struct dist_sync {
	const char *path;
	int fd;
	kp_mono_ns deadline;
	kp_mono_ns quiet;	/* it is silent from then on; 0: that was told */
	size_t left;		/* bytes it may still send */
	unsigned patience;	/* s: with notes for each message, or in all */
	bool notes;		/* are shown */
	char *why;
	size_t nwhy;
};

static enum kp_err
fail(const struct dist_sync *t, enum kp_err err, const char *what)
{
	snprintf(t->why, t->nwhy, "kprofd at '%s' %s", t->path, what);
	return err;
}

static enum kp_err
unreachable(const struct dist_sync *t, int error)
{
	if (error == EACCES || error == EPERM)
		snprintf(t->why, t->nwhy, "cannot reach kprofd at '%s': %s "
		    "(its user or root may)", t->path, strerror(error));
	else
		snprintf(t->why, t->nwhy, "cannot reach kprofd at '%s': is it "
		    "running? (see -db, -control)", t->path);
	return KP_ENOENT;
}

static enum kp_err
dist_sync_open(struct dist_sync *t)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval limit = { t->patience, 0 };

	if (strlen(t->path) >= sizeof(sun.sun_path)) {
		snprintf(t->why, t->nwhy, "the socket's path '%s' is longer "
		    "than %zu bytes: change to its directory, or see -control",
		    t->path, sizeof(sun.sun_path) - 1);
		return KP_ELIMIT;
	}
	memcpy(sun.sun_path, t->path, strlen(t->path) + 1);
	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return unreachable(t, errno);
	/* a daemon that hangs accepts nothing: connect() waits no longer */
	setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(t->fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
		return errno == EAGAIN ? fail(t, KP_ETIMEOUT,
		    "does not answer") : unreachable(t, errno);
	t->deadline = kp_mono_now() + t->patience * KP_NS_PER_S;
	t->quiet = t->notes ? kp_mono_now() + QUIET : 0;
	return KP_OK;
}

static enum kp_err
dist_sync_send(struct dist_sync *t, const char *command)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s\n", command);

	if (send(t->fd, line, (size_t)n, MSG_NOSIGNAL) != n)
		return fail(t, KP_EIO, "takes no command: is it ending?");
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

/* It has been silent for a while: why, where that can be seen. */
static enum kp_err
talk_quiet(struct dist_sync *t)
{
	struct ucred peer = { .pid = 0 };
	socklen_t n = sizeof(peer);
	char what[120];

	t->quiet = 0;
	if (getsockopt(t->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	    peer.pid > 0 && is_stopped(peer.pid)) {
		snprintf(what, sizeof(what), "does not answer: its process %d "
		    "is stopped ('kill -CONT %d' lets it go on)",
		    (int)peer.pid, (int)peer.pid);
		return fail(t, KP_ETIMEOUT, what);
	}
	say("waiting for kprofd at '%s' to answer", t->path);
	return KP_OK;
}

/* Waits until there is something to read, or too much time has passed. */
static enum kp_err
talk_wait(struct dist_sync *t)
{
	struct pollfd pfd = { .fd = t->fd, .events = POLLIN };
	kp_mono_ns now = kp_mono_now(), until = t->deadline;

	if (now >= until)
		return fail(t, KP_ETIMEOUT, "does not answer in time");
	if (t->quiet != 0 && t->quiet < until)
		until = t->quiet;
	if (poll(&pfd, 1, now >= until ? 0 : (int)((until - now) /
	    KP_NS_PER_MS) + 1) == 0 && t->quiet != 0)
		return talk_quiet(t);
	return KP_OK;
}

/* Some bytes, 1 to n of them, before the deadline. */
static enum kp_err
talk_recv(struct dist_sync *t, char *p, size_t n, size_t *got)
{
	enum kp_err err;
	ssize_t r;

	for (;;) {
		err = talk_wait(t);
		if (err != KP_OK)
			return err;
		r = recv(t->fd, p, n, MSG_DONTWAIT);
		if (r > 0)
			break;
		if (r == 0)
			return fail(t, KP_ESHORT, "closed the connection "
			    "before its answer was complete");
		if (errno != EAGAIN && errno != EINTR)
			return fail(t, KP_EIO, strerror(errno));
	}
	*got = (size_t)r;
	return KP_OK;
}

/* "ok 12": byte by byte, since the text behind it is not for here. */
static enum kp_err
read_head(struct dist_sync *t, char *kind, size_t nkind, size_t *len)
{
	char line[HEAD_MAX + 1], *blank, *end;
	enum kp_err err;
	size_t n = 0, got;

	for (;;) {
		err = talk_recv(t, line + n, 1, &got);
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
	if (*len > t->left)
		return fail(t, KP_ELIMIT, "answers more than 1 MiB");
	t->left -= *len;
	return KP_OK;
bad:
	return fail(t, KP_EFORMAT, "answers what kprof does not understand: "
	    "are both of one version?");
}

static enum kp_err
read_text(struct dist_sync *t, size_t len, struct kp_buf *b)
{
	char piece[4096];
	enum kp_err err;
	size_t got;

	kp_buf_reset(b);
	for (; len > 0; len -= got) {
		err = talk_recv(t, piece, len < sizeof(piece) ? len :
		    sizeof(piece), &got);
		if (err != KP_OK)
			return err;
		kp_buf_put(b, piece, got);
	}
	return b->err == KP_OK ? KP_OK : fail(t, b->err, "answers too much");
}

static void
show_note(const struct kp_buf *b)
{
	struct kp_buf clean;

	kp_buf_init(&clean, 8 * ANSWER_MAX);
	text_put_lines(&clean, (const char *)b->p, b->len);
	fprintf(stderr, "%s%s", kp_buf_cstr(&clean),
	    b->len > 0 && b->p[b->len - 1] == '\n' ? "" : "\n");
	kp_buf_free(&clean);
}

static enum kp_err
talk_answer(struct dist_sync *t, struct kp_buf *answer)
{
	enum kp_err err;
	char kind[8];
	size_t len;

	for (;;) {
		err = read_head(t, kind, sizeof(kind), &len);
		if (err == KP_OK)
			err = read_text(t, len, answer);
		if (err != KP_OK)
			return err;
		if (strcmp(kind, "ok") == 0)
			return KP_OK;
		if (strcmp(kind, "error") == 0) {
			snprintf(t->why, t->nwhy, "%s", kp_buf_cstr(answer));
			t->why[strcspn(t->why, "\n")] = '\0';
			return KP_ESTATE;
		}
		if (strcmp(kind, "note") != 0)
			return fail(t, KP_EFORMAT,
			    "answers with an unknown word");
		if (!t->notes)
			continue;
		show_note(answer);
		t->deadline = kp_mono_now() + t->patience * KP_NS_PER_S;
	}
}

bool
node_command(char *line, size_t n, const char *command, const char *node)
{
	if (node == NULL) {
		snprintf(line, n, "%s", command);
		return true;
	}
	if (strlen(node) > KP_NODE_NAME_MAX || strpbrk(node, " \t\n") != NULL) {
		say("-node '%s' can match no node: it has a blank in it, or "
		    "more than %d bytes", node, KP_NODE_NAME_MAX);
		return false;
	}
	snprintf(line, n, "%s node=%s", command, node);
	return true;
}

static enum kp_err
ask_talk(const struct place *p, const char *command, struct kp_buf *answer,
    struct dist_sync *t)
{
	char *path = NULL;
	enum kp_err err;

	if (p->control == NULL && asprintf(&path, "%s.sock",
	    place_dbs(p).v[0]) < 0) {
		snprintf(t->why, t->nwhy, "out of memory");
		return KP_ENOMEM;
	}
	t->path = p->control != NULL ? p->control : path;
	err = dist_sync_open(t);
	if (err == KP_OK)
		err = dist_sync_send(t, command);
	if (err == KP_OK)
		err = talk_answer(t, answer);
	if (t->fd >= 0)
		close(t->fd);
	free(path);
	return err;
}

enum kp_err
ask(const struct place *p, const char *command, struct kp_buf *answer,
    char *why, size_t n)
{
	struct dist_sync t = { .fd = -1, .left = ANSWER_MAX, .why = why,
		.nwhy = n, .patience = SILENCE_S, .notes = true };

	return ask_talk(p, command, answer, &t);
}

enum kp_err
ask_soon(const struct place *p, const char *command, unsigned seconds,
    struct kp_buf *answer, char *why, size_t n)
{
	struct dist_sync t = { .fd = -1, .left = ANSWER_MAX, .why = why,
		.nwhy = n, .patience = seconds };

	return ask_talk(p, command, answer, &t);
}
