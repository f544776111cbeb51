/* suggest_check.c - runs kprofd -check, and reads what it says. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "kprofd/term.h"
#include "client/functions/shared.h"
#include "client/functions/suggest_check.h"
#include "text/text.h"

extern char **environ;

void
suggest_check_init(struct suggest_check *c)
{
	kp_buf_init(&c->out, SUGGEST_SAID_MAX);
	kp_buf_init(&c->log, SUGGEST_SAID_MAX);
}

void
suggest_check_free(struct suggest_check *c)
{
	kp_buf_free(&c->out);
	kp_buf_free(&c->log);
}

/* ---- the program ---- */

/* kprofd beside this program, or just its name. */
static const char *
program(char *path, size_t n)
{
	ssize_t len = readlink("/proc/self/exe", path, n - 1);
	char *slash;

	if (len <= 0)
		return "kprofd";
	path[len] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL || (size_t)(slash - path) + 8 >= n)
		return "kprofd";
	strcpy(slash + 1, "kprofd");
	return access(path, X_OK) == 0 ? path : "kprofd";
}

static bool
write_file(char *path, size_t n, const struct kp_buf *text)
{
	const char *dir = getenv("TMPDIR");
	bool good = false;
	int fd;

	snprintf(path, n, "%s/kprof-suggest-XXXXXX",
	    dir != NULL && dir[0] == '/' ? dir : "/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return false;
	good = write(fd, text->p, text->len) == (ssize_t)text->len;
	close(fd);
	if (!good)
		unlink(path);
	return good;
}

struct child {
	pid_t pid;
	int out[2], log[2];
};

static bool
start(struct child *k, const struct suggest_check *c, const char *file)
{
	char path[4096], span[32];
	struct reach_args reach;
	const char *argv[16 + REACH_ARGS_MAX] = { "kprofd", "-check", "-log",
		"json", "-tiers", file, "-target", c->talk->target, "-duration",
		span };
	posix_spawn_file_actions_t fa;
	size_t n = 10;
	int e;

	snprintf(span, sizeof(span), "%lldms",
	    (long long)(c->span / KP_NS_PER_MS));
	reach_args(&reach, c->talk->reach);
	memcpy(argv + n, reach.v, reach.n * sizeof(*argv));
	n += reach.n;
	if (c->library != NULL) {
		argv[n++] = "-probe-library";
		argv[n++] = c->library;
	}
	if (c->explain)
		argv[n++] = "-explain";
	if (c->explain && c->values)
		argv[n++] = "-values";
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, k->out[1], 1);
	posix_spawn_file_actions_adddup2(&fa, k->log[1], 2);
	e = posix_spawnp(&k->pid, program(path, sizeof(path)), &fa, NULL,
	    (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	errno = e;
	return e == 0;
}

/* Reads a pipe; false at its end.  What is past the limit is not kept. */
static bool
take(int fd, struct kp_buf *b)
{
	char bytes[8192];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	if (b->len + (size_t)n < b->max)
		kp_buf_put(b, bytes, (size_t)n);
	return true;
}

/* Until both pipes are closed.  True: a signal came, and was passed on. */
static bool
listen_to(struct child *k, struct suggest_check *c)
{
	struct pollfd v[3] = { { .fd = k->out[0], .events = POLLIN },
		{ .fd = k->log[0], .events = POLLIN },
		{ .fd = c->talk->wake, .events = POLLIN } };
	bool woken = false;

	while (v[0].fd >= 0 || v[1].fd >= 0) {
		if (poll(v, 3, -1) < 0)
			continue;
		if (v[0].fd >= 0 && v[0].revents != 0 && !take(v[0].fd, &c->out))
			v[0].fd = -1;
		if (v[1].fd >= 0 && v[1].revents != 0 && !take(v[1].fd, &c->log))
			v[1].fd = -1;
		if (v[2].fd >= 0 && v[2].revents != 0) {
			v[2].fd = -1;
			woken = true;
			kill(k->pid, SIGTERM);
		}
	}
	return woken;
}

static void
close_pipe(int *p)
{
	for (int i = 0; i < 2; i++)
		if (p[i] >= 0)
			close(p[i]);
}

enum kp_err
suggest_check_run(struct suggest_check *c, const struct kp_buf *text, char *why,
    size_t n)
{
	struct child k = { .out = { -1, -1 }, .log = { -1, -1 } };
	bool woken = false, started = false;
	int st = 0;

	kp_buf_reset(&c->out);
	kp_buf_reset(&c->log);
	if (!write_file(c->file, sizeof(c->file), text)) {
		snprintf(why, n, "cannot write a temporary file: %s",
		    strerror(errno));
		return KP_EIO;
	}
	if (pipe2(k.out, O_CLOEXEC) == 0 && pipe2(k.log, O_CLOEXEC) == 0)
		started = start(&k, c, c->file);
	if (!started)
		snprintf(why, n, "cannot run kprofd, which is to check the "
		    "proposal: %s", strerror(errno));
	if (started) {
		close(k.out[1]);
		close(k.log[1]);
		k.out[1] = k.log[1] = -1;
		woken = listen_to(&k, c);
		while (waitpid(k.pid, &st, 0) < 0 && errno == EINTR)
			;
	}
	close_pipe(k.out);
	close_pipe(k.log);
	unlink(c->file);
	c->status = WIFEXITED(st) ? WEXITSTATUS(st) : EXIT_FAILED;
	return !started ? KP_EIO : woken ? KP_END : KP_OK;
}

/* ---- what it said ---- */

/* Does the text up to end name the file?  It tells people nothing. */
static bool
names_file(const struct suggest_check *c, const char *text, const char *end)
{
	const char *at = strstr(text, c->file);

	if (strncmp(text, "\"message\":\"probe of ", 20) == 0)
		return true;	/* nor does which probe it was */
	return at != NULL && at < end;
}

/* Copies a JSON text as far as it is plain: \" and \\ are. */
static void
put_json_text(struct kp_buf *b, const char *s)
{
	const char *from = s;

	for (; *s != '\0' && *s != '"'; s++)
		if (*s == '\\' && s[1] != '\0') {
			text_put_n(b, from, (size_t)(s - from));
			from = ++s;
		}
	text_put_n(b, from, (size_t)(s - from));
}

void
suggest_check_messages(struct suggest_check *c, struct kp_buf *b)
{
	const char *line = kp_buf_cstr(&c->log), *end, *level, *text;

	for (; *line != '\0'; line = *end != '\0' ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		level = strstr(line, "\"level\":\"");
		text = strstr(line, "\"message\":\"");
		if (level == NULL || text == NULL || text > end ||
		    level > text || strncmp(level + 9, "info", 4) == 0 ||
		    names_file(c, text, end))
			continue;
		kp_buf_str(b, strncmp(level + 9, "error", 5) == 0 ? "error: " :
		    "warning: ");
		put_json_text(b, text + 11);
		kp_buf_u8(b, '\n');
	}
}

char *
suggest_check_line(struct suggest_check *c, const char *begin)
{
	const char *line = kp_buf_cstr(&c->out);
	size_t n = strlen(begin);

	for (; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, begin, n) == 0)
			return strndup(line + n, strcspn(line + n, "\n"));
	return NULL;
}
