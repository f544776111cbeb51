/*
 * ctl_client.c - sends a command of kprof to the daemon of a database, and prints
 * its notes and its answer.  After QUIET it prints that it is waiting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "text/text.h"

#define QUIET (3 * KP_NS_PER_S / 2)	/* before it prints that it waits */

static void
put_lines(struct kp_buf *out, const struct kp_buf *text)
{
	text_put_lines(out, (const char *)text->p, text->len);
	if (text->len > 0 && text->p[text->len - 1] != '\n')
		kp_buf_u8(out, '\n');
}

static bool
print_note(void *ctx, const char *kind, const struct kp_buf *note)
{
	struct kp_buf b;

	(void)ctx;
	if (strcmp(kind, "note") != 0)
		return false;
	kp_buf_init(&b, 8 * CTL_ANSWER_MAX);
	put_lines(&b, note);
	fputs(kp_buf_cstr(&b), stderr);
	kp_buf_free(&b);
	return true;
}

static bool
no_note(void *ctx, const char *kind, const struct kp_buf *note)
{
	(void)ctx, (void)note;
	return strcmp(kind, "note") == 0;
}

static void
on_quiet(void *ctx, const char *path)
{
	(void)ctx;
	say("waiting for kprofd at '%s' to answer", path);
}

bool
daemon_line(char line[CTL_LINE_MAX], const char *command, const char *nodes)
{
	if (ctl_line(line, command, nodes))
		return true;
	say("-node is given too often: a command for kprofd has at most %d "
	    "bytes", CTL_LINE_MAX);
	return false;
}

enum kp_err
daemon_ask(const struct place *p, const char *command, unsigned seconds,
    struct kp_buf *answer, char *why, size_t n)
{
	struct ctl_request r = { .see = "-db, -control", .most = CTL_ANSWER_MAX,
		.patience = seconds > 0 ? seconds : CTL_SILENCE_S,
		.each = seconds == 0, .quiet = seconds == 0 ? QUIET : 0,
		.on_quiet = on_quiet,
		.on_message = seconds == 0 ? print_note : no_note };
	char *path = NULL, line[CTL_LINE_MAX + 1];
	enum kp_err err;

	if (p->control == NULL && asprintf(&path, "%s.sock",
	    place_dbs(p).v[0]) < 0) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	r.path = p->control != NULL ? p->control : path;
	r.bytes = line;
	r.n = (size_t)snprintf(line, sizeof(line), "%s\n", command);
	err = ctl_request(&r, answer, why, n);
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
