/* file_why.h - the reason why a file cannot be opened, for people. */
#ifndef KPROFD_TEXT_FILE_WHY_H
#define KPROFD_TEXT_FILE_WHY_H

#include <limits.h>

#define FILE_WHY_MAX (PATH_MAX + 64)

/*
 * Explains the errno of an open, or of a bind, of path: names the directory if
 * that is what is missing.  Returns buf.
 */
const char *file_why(char buf[FILE_WHY_MAX], const char *path, int err);

#endif
