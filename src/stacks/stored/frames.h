/*
 * frames.h - takes the text of a stack apart: frames outermost first, joined by
 * ';', each "mod:fun/arity:line" (kprofd/stacks.h).  Pure.
 */
#ifndef KPROFD_STACKS_STORED_FRAMES_H
#define KPROFD_STACKS_STORED_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Is it the stack of all that were too many to be kept? */
bool frames_other(const char *frames);
/* Is it no stack, but one of the words in the place of stacks that are not known? */
bool frames_unknown(const char *frames);
/* Returns the number of parts of a text joined by ';'; of "", 0. */
unsigned frames_count(const char *frames);
/*
 * Returns the first part at or after *s, *n bytes, and moves *s behind it; NULL
 * after the last one.
 */
const char *frames_next(const char **s, size_t *n);
/* Is the tier, or a part of it ("db: users"), one of those of a path, joined by ';'? */
bool frames_in_tier(const char *path, const char *tier);
/* Returns the bytes of a frame that are its function, without ":line". */
size_t frame_fn(const char *frame, size_t n);
/*
 * Finds the innermost frame of the application: that of a module which is not
 * Erlang's or Elixir's own; if there is none, the innermost frame.  NULL: there
 * are no frames.
 */
const char *frames_app(const char *frames, size_t *n);

#endif
