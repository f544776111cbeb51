/*
 * terminal.h - the terminal: its width, single keys as answers, and a screen that
 * draws frames on all of it, and reads its keys.
 *
 * It writes six ECMA-48 sequences, which every terminal knows.  curses would
 * add a library, its terminal database, and a second opinion of how wide a
 * character is.  Where $TERM is `dumb` or unset there is no screen.
 *
 * However the program ends, by exit() or by a signal that can be caught, the
 * terminal is restored.  There is one screen at most.
 */
#ifndef KPROFD_CLIENT_TERMINAL_H
#define KPROFD_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

/* Columns of the terminal ($COLUMNS goes first); 0: stdout is not a terminal. */
unsigned screen_width(void);

/*
 * Takes keys as they are pressed, without echo.  For a question that a key answers:
 * forgets what was typed before, and Ctrl-C and the like are keys, too.  For a command
 * that runs meanwhile: Ctrl-C stays a signal, Ctrl-Z and Ctrl-\ are off, since they
 * would leave the terminal in this state, and it is restored when the program ends.
 * False: stdin is not a terminal.
 */
enum terminal_use { TERMINAL_QUESTION, TERMINAL_COMMAND };
bool terminal_take(enum terminal_use use);
/*
 * Waits for one of these keys; NULL: any.  '\0': input has ended, or the descriptor
 * `wake` (-1: none) can be read.
 */
char terminal_key(const char *keys, int wake);
void terminal_give_back(void);

/* Are stdin and stdout a terminal that can be drawn on? */
bool screen_possible(void);
/* Takes the terminal over.  False: its modes cannot be set. */
bool screen_open(void);
/* Restores the terminal; may be called at any time, and repeatedly. */
void screen_close(void);

/* Columns and rows, from 1 to SCREEN_MAX. */
#define SCREEN_MAX 1000u
void screen_size(unsigned *width, unsigned *height);
/*
 * Draws lines that fit (report/top.h), the first and the last of them
 * reversed.  False: the terminal is gone.
 */
bool screen_draw(const char *lines);

enum screen_event {
	SCREEN_TIME,	/* the deadline has passed */
	SCREEN_KEY,
	SCREEN_SIZE,	/* the size has changed: draw again */
	SCREEN_END	/* a signal to end, or the terminal is gone */
};

/* Waits for the first event; *key is set for SCREEN_KEY. */
enum screen_event screen_wait(kp_mono_ns deadline, int *key);

#endif
