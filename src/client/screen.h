/*
 * screen.h - a terminal that is drawn on as a whole, and its keys.
 *
 * Plain ECMA-48 and no curses: a frame is rewritten line by line, which needs
 * six sequences that every terminal of the last thirty years has, while
 * curses would add a library, its tables of terminals, and a second opinion
 * of how wide a character is.  Where $TERM says `dumb`, or nothing, there is
 * no screen.
 *
 * However the program ends, by exit() or by a signal that it can catch, the
 * terminal is as it was before.  There is one screen at most.
 */
#ifndef KPROFD_CLIENT_SCREEN_H
#define KPROFD_CLIENT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

/* Are stdin and stdout a terminal that can be drawn on? */
bool screen_possible(void);
/* Takes the terminal over.  False: it does not let us. */
bool screen_open(void);
/* Gives it back; may be called at any time, again and again. */
void screen_close(void);

/* Columns and rows, 1 at least and SCREEN_MAX at most. */
#define SCREEN_MAX 1000u
void screen_size(unsigned *width, unsigned *height);
/*
 * Draws lines that fit (report/top.h), the first and the last of them
 * reversed.  False: the terminal is gone.
 */
bool screen_draw(const char *lines);

enum screen_event {
	SCREEN_TIME,	/* the deadline */
	SCREEN_KEY,
	SCREEN_SIZE,	/* it has another size */
	SCREEN_END	/* a signal to end, or the terminal is gone */
};

/* Waits for what comes first. */
enum screen_event screen_wait(kp_mono_ns deadline, int *key);

#endif
