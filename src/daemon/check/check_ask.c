/*
 * check_ask.c - sends the file to the daemon at the control socket, and prints
 * what it answers: tables on stdout, diagnostics and failures in the log.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl_socket.h"
#include "daemon/check/check.h"
#include "daemon/check/check_ask.h"
#include "daemon/log.h"
#include "daemon/check/check_message.h"
#include "text/text.h"

struct asked {
	const struct conf_file *f;
	bool failed;
};

static void
print(const struct kp_buf *text)
{
	struct kp_buf b;

	kp_buf_init(&b, 8 * CHECK_ANSWER_MAX);
	text_put_lines(&b, (const char *)text->p, text->len);
	fputs(kp_buf_cstr(&b), stdout);
	fflush(stdout);
	kp_buf_free(&b);
}

static bool
put_diags(const struct asked *a, const struct kp_buf *text)
{
	char node[KP_NODE_NAME_MAX + 1];
	struct kp_diags diags;
	bool good = check_diags_read(&diags, node, (const char *)text->p,
	    text->len);

	if (good)
		conf_file_diags(a->f, &diags, node[0] != '\0' ? node : NULL,
		    NULL);
	kp_diags_free(&diags);
	return good;
}

static bool
on_message(void *ctx, const char *kind, const struct kp_buf *text)
{
	struct asked *a = ctx;

	if (strcmp(kind, "print") == 0) {
		print(text);
	} else if (strcmp(kind, "failed") == 0) {
		log_error("failed", NULL, "%.*s", (int)text->len,
		    (const char *)text->p);
		a->failed = true;
	} else {
		return strcmp(kind, "diags") == 0 && put_diags(a, text);
	}
	return true;
}

/* The line of the command and the text behind it. */
static void
put_command(struct kp_buf *b, const struct options *o,
    const struct conf_file *f)
{
	struct kp_buf text;

	kp_buf_init(&text, CHECK_MESSAGE_MAX);
	check_message_put(&text, (unsigned)(o->duration / KP_NS_PER_MS),
	    f->path, o->targets, o->ntargets, f->text, f->len);
	kp_buf_printf(b, "check bytes=%zu\n", text.len);
	kp_buf_put(b, text.p, text.len);
	if (b->err == KP_OK)
		b->err = text.err;
	kp_buf_free(&text);
}

static int
failed(const struct options *o, enum kp_err err, const char *why)
{
	if (err == KP_ESTATE)
		log_error("check", NULL, "the kprofd at '%s' does not check "
		    "it: %s", o->control_path, why);
	else
		log_error("check", NULL, "%s", why);
	return 1;
}

int
check_ask(const struct options *o, const struct conf_file *f)
{
	struct asked a = { .f = f };
	struct ctl_request r = { .path = o->control_path, .see = "-control",
		.patience = CTL_SILENCE_S + (unsigned)(o->duration /
		KP_NS_PER_S), .each = true, .most = 2 * CHECK_ANSWER_MAX,
		.quiet = o->duration + CTL_SILENCE_S / 6 * KP_NS_PER_S,
		.on_message = on_message, .ctx = &a };
	struct kp_buf command, answer;
	char why[1024];
	enum kp_err err;

	kp_buf_init(&command, CHECK_MESSAGE_MAX + 64);
	kp_buf_init(&answer, 2 * CHECK_ANSWER_MAX);
	put_command(&command, o, f);
	r.bytes = (const char *)command.p;
	r.n = command.len;
	err = command.err;
	snprintf(why, sizeof(why), "%s", kp_err_str(err));
	if (err == KP_OK)
		err = ctl_request(&r, &answer, why, sizeof(why));
	if (err != KP_OK)
		a.failed = failed(o, err, why);
	else if (!a.failed)
		check_passed(f->warnings +
		    strtoull(kp_buf_cstr(&answer), NULL, 10));
	kp_buf_free(&command);
	kp_buf_free(&answer);
	return a.failed;
}
