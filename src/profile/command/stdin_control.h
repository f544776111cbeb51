/*
 * stdin_control.h - control of a running command by a person or a program: keys
 * on a terminal, or lines on standard input.  There is one at most.
 *
 * On a terminal a key is a word's first letter, and is not shown.
 */
#ifndef KPROFD_PROFILE_COMMAND_STDIN_CONTROL_H
#define KPROFD_PROFILE_COMMAND_STDIN_CONTROL_H

#include <stdbool.h>

enum stdin_command {
	STDIN_PAUSE,
	STDIN_CONTINUE,
	STDIN_RESTART,
	STDIN_SHOW,
	STDIN_END,		/* nobody is there any more, too */
	STDIN_NONE		/* no more of them at the moment */
};

/* Are we what the terminal on standard input talks to? */
bool stdin_control_possible(void);
/*
 * From now on what is returned can be read when `wake` can, or when there are
 * words; lines: of standard input, else keys.  Less than 0: it cannot be, which
 * was said.  The terminal is as it was when the program ends.
 */
int stdin_control_open(int wake, bool lines);
/* The next word, if any. */
enum stdin_command stdin_control_next(void);
/* Whether words make what stdin_control_open() returned readable; they wait if not. */
void stdin_control_listen(bool yes);

#endif
