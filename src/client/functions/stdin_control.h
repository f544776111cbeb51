/*
 * stdin_control.h - controls a running command from standard input: by keys of a
 * terminal, which are the commands' first letters, or by lines.  There is one at
 * most.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_STDIN_CONTROL_H
#define KPROFD_CLIENT_FUNCTIONS_STDIN_CONTROL_H

#include <stdbool.h>

enum stdin_command {
	STDIN_PAUSE,
	STDIN_CONTINUE,
	STDIN_RESTART,
	STDIN_SHOW,
	STDIN_END,		/* also the end of standard input */
	STDIN_NONE		/* none has come */
};

/* True if standard input is a terminal, and we are in its foreground. */
bool stdin_control_possible(void);
/*
 * Returns a descriptor that is readable when `wake` is, or when a command may have
 * come; -1 after printing why that failed.  lines: read lines, else keys.  The
 * terminal is restored when the program ends.
 */
int stdin_control_open(int wake, bool lines);
/* The next command, if any. */
enum stdin_command stdin_control_next(void);
/* Whether commands make that descriptor readable; else they wait. */
void stdin_control_listen(bool yes);

#endif
