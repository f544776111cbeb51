/* suggest_keys.c - on a terminal, a key takes the proposal, or another entry. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "kprofd/fn_name.h"
#include "client/functions/suggest_run.h"
#include "text/text.h"

#define KEYS_MAX 9u		/* entries that have a digit */
#define CTRL_C '\x03'
#define CTRL_D '\x04'

bool
suggest_keys_wanted(const struct suggest_run *r)
{
	return r->a->file != NULL && !r->a->quiet && isatty(STDIN_FILENO) &&
	    isatty(STDERR_FILENO);
}

static size_t
entries(const struct suggest_run *r)
{
	return r->nentries < KEYS_MAX ? r->nentries : KEYS_MAX;
}

static void
ask(const struct suggest_run *r)
{
	char name[FN_NAME_MAX];

	suggest_summary(r, "");
	for (size_t i = 0; i < entries(r); i++)
		fprintf(stderr, "%c %zu  %s\n", i == r->chosen ? '*' : ' ',
		    i + 1, suggest_entry_name(r, i, name));
	fprintf(stderr, "y: write '%s'; 1 to %zu: another entry; q: quit ",
	    r->a->file, entries(r));
	fflush(stderr);
}

/*
 * Asks, and waits for a key that says something; 'q' after a signal, or at the end of
 * input.  Keys from before the question are no answer to it.
 */
static char
read_key(const struct suggest_run *r)
{
	struct pollfd v[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = r->node.talk.wake, .events = POLLIN } };
	struct termios was, raw;
	char key = 'q';

	if (tcgetattr(STDIN_FILENO, &was) != 0)
		return 'q';
	raw = was;
	raw.c_lflag &= (tcflag_t)~(ICANON | ECHO | ISIG);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	ask(r);
	do {
		while (poll(v, 2, -1) < 0)
			;
		if (v[1].revents != 0 || read(STDIN_FILENO, &key, 1) != 1)
			key = 'q';
	} while ((key == '\0' || strchr("yY\r\nqQ\x03\x04", key) == NULL) &&
	    (key < '1' ||
	    (size_t)(key - '0') > entries(r) ||
	    (size_t)(key - '1') == r->chosen));
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &was);
	return key;
}

/*
 * All steps again, from its requests on.  If it is none, what was proposed before stays.
 * OPTS_GO_ON; or failed.
 */
static int
take_entry(struct suggest_run *r, size_t entry)
{
	char *text = strdup(kp_buf_cstr(&r->text)), name[FN_NAME_MAX];
	struct suggest_tiers tiers = r->tiers;
	size_t before = r->chosen;
	int st;

	if (text == NULL) {
		say("out of memory");
		return EXIT_FAILED;
	}
	r->chosen = entry;
	r->asked = true;
	st = suggest_entry_try(r);
	if (st == EXIT_DONE) {
		say("'%s': not %s: %s", r->a->target, suggest_entry_name(r,
		    entry, name), r->not_good);
		r->chosen = before;
		r->tiers = tiers;
		kp_buf_reset(&r->text);
		kp_buf_str(&r->text, text);
		st = OPTS_GO_ON;
	}
	free(text);
	return st;
}

int
suggest_keys(struct suggest_run *r)
{
	int st = OPTS_GO_ON;
	char key;

	while (st == OPTS_GO_ON) {
		key = read_key(r);
		fputc('\n', stderr);
		if (key == 'y' || key == 'Y' || key == '\r' || key == '\n')
			return OPTS_GO_ON;
		if (key == 'q' || key == 'Q' || key == CTRL_C ||
		    key == CTRL_D) {
			say("nothing is written");
			return EXIT_DONE;
		}
		st = take_entry(r, (size_t)(key - '1'));
	}
	return st;
}
