/*
 * keys.h - what a person, or a program, says to a command that runs: keys on a
 * terminal, or lines on standard input.  There is one at most.
 *
 * On a terminal a key is a word's first letter, and is not shown.
 */
#ifndef KP_KPROF_KEYS_H
#define KP_KPROF_KEYS_H

#include <stdbool.h>

enum keys_word {
	KEYS_PAUSE,
	KEYS_CONTINUE,
	KEYS_RESTART,
	KEYS_SHOW,
	KEYS_END,		/* nobody is there any more, too */
	KEYS_NONE		/* no more of them at the moment */
};

/* Are we what the terminal on standard input talks to? */
bool keys_possible(void);
/*
 * From now on what is returned can be read when `wake` can, or when there are
 * words; lines: of standard input, else keys.  Less than 0: it cannot be, which
 * was said.  The terminal is as it was when the program ends.
 */
int keys_open(int wake, bool lines);
/* The next word, if any. */
enum keys_word keys_next(void);
/* Whether words make what keys_open() returned readable; they wait if not. */
void keys_listen(bool yes);

#endif
