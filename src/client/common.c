/* common.c - messages, output and databases of the commands. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client.h"
#include "text/text.h"

#define WIDTH_MIN 20u
#define MESSAGE_MAX 65536u

void
say(const char *fmt, ...)
{
	char text[1024];
	struct kp_buf b;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kp_buf_init(&b, MESSAGE_MAX);
	text_put_lines(&b, text, strlen(text));
	fprintf(stderr, "kprof: %s\n", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

struct kp_query_files
place_dbs(const struct place *p)
{
	static const char *otherwise[1];
	const char *env = getenv("KPROF_DB");

	otherwise[0] = env != NULL && env[0] != '\0' ? env : DB_DEFAULT;
	if (p->dbs.n == 0)
		return (struct kp_query_files){ otherwise, 1 };
	return (struct kp_query_files){ p->dbs.v, p->dbs.n };
}

struct place
place_at(const struct place *p, size_t i)
{
	return (struct place){ .dbs = { { place_dbs(p).v[i] }, 1 },
		.control = p->control };
}

int
place_check(const struct cmd *cmd, const struct place *p)
{
	if (p->dbs.n > 1 && p->control != NULL)
		return opts_wrong(cmd, "-control is one daemon's socket: give "
		    "one -db with it, or none");
	return OPTS_GO_ON;
}

const char *
place_name(char *buf, size_t n, const struct place *p)
{
	struct kp_query_files dbs = place_dbs(p);

	if (dbs.n == 1)
		snprintf(buf, n, "%s", dbs.v[0]);
	else
		snprintf(buf, n, "%s and %zu more", dbs.v[0], dbs.n - 1);
	return buf;
}

enum kp_err
open_db(struct kp_query **q, const struct place *p)
{
	struct kp_query_files dbs = place_dbs(p);
	char *why;
	enum kp_err err = kp_query_open_all(q, &dbs, &why);

	if (err != KP_OK) {
		say("%s", why != NULL ? why : kp_err_str(err));
		free(why);
	}
	return err;
}

int
query_failed(const struct kp_query *q, enum kp_err err)
{
	const char *why = kp_query_why(q);

	say("%s", why[0] != '\0' ? why : kp_err_str(err));
	return EXIT_FAILED;
}

unsigned
screen_width(void)
{
	const char *columns = getenv("COLUMNS");
	unsigned long n = columns != NULL ? strtoul(columns, NULL, 10) : 0;
	struct winsize ws;

	if (n == 0 && isatty(STDOUT_FILENO) &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0)
		n = ws.ws_col;
	if (n == 0 || n > 100000)
		return 0;
	return n < WIDTH_MIN ? WIDTH_MIN : (unsigned)n;
}

int
show(struct kp_buf *b)
{
	int st = EXIT_FAILED;

	if (b->err != KP_OK)
		say("cannot make the output: %s", b->err == KP_ELIMIT ?
		    "it is too large (see -since, -identity)" :
		    kp_err_str(b->err));
	else if ((b->len > 0 && fwrite(b->p, 1, b->len, stdout) != b->len) ||
	    fflush(stdout) != 0)
		say("cannot write the output: %s", strerror(errno));
	else
		st = EXIT_DONE;
	kp_buf_free(b);
	return st;
}

int
query_show(const struct kp_query *q, enum kp_err err, struct kp_buf *b)
{
	if (err == KP_OK)
		return show(b);
	kp_buf_free(b);
	return query_failed(q, err);
}
