/* cmd_merge.c - kprof merge: databases of many machines into one. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "client.h"
#include "text/text.h"
#include "store/merge.h"

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	stop = sig;
}

static int
failed(enum kp_err err, char *why)
{
	say("%s", why != NULL ? why : kp_err_str(err));
	free(why);
	return EXIT_FAILED;
}

static void
put_count(struct kp_buf *b, const char *in, const struct kp_merge_count *c)
{
	const struct {
		uint64_t n;
		const char *what;
	} parts[] = {
		{ c->runs, "run" }, { c->windows, "window" },
		{ c->requests, "slow request" }, { c->events, "event" },
	};
	const char *sep = ": ";
	char text[TEXT_MAX];

	text_put(b, in);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].n == 0)
			continue;
		kp_buf_printf(b, "%s%s", sep, text_counted(text, parts[i].n,
		    parts[i].what));
		sep = ", ";
	}
	kp_buf_str(b, *sep == ',' ? " added\n" : ": nothing new\n");
}

static int
merge(const char *out, const struct opt_list *files)
{
	struct kp_merge_count count;
	struct kp_merge *m;
	struct kp_buf b;
	char *why;
	enum kp_err err = kp_merge_open(&m, out, &stop, &why);

	if (err != KP_OK)
		return failed(err, why);
	kp_buf_init(&b, OUTPUT_MAX);
	for (size_t i = 1; i < files->n && err == KP_OK; i++) {
		err = kp_merge_add(m, files->v[i], &count, &why);
		if (err == KP_OK)
			put_count(&b, files->v[i], &count);
	}
	if (err == KP_OK)
		err = kp_merge_finish(m, &why);
	else
		kp_merge_abandon(m);
	if (err == KP_OK)
		return show(&b);
	kp_buf_free(&b);
	return failed(err, why);
}

int
cmd_merge(const struct cmd *cmd, int argc, char **argv)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };
	struct opt_list files = { .n = 0 };
	const struct opt opts[] = { OPT_ARGUMENTS(files) };
	int st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);

	if (st != OPTS_GO_ON)
		return st;
	if (files.n < 2)
		return opts_wrong(cmd, "give the file to merge into, and "
		    "those to be merged");
	/* they set `stop`, on which kp_merge_add() leaves OUT as it was */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
	return merge(files.v[0], &files);
}
