/*
 * file_why.h - the reason why a file cannot be opened or written, for people; and
 * where files beside this program are.
 */
#ifndef KPROFD_TEXT_FILE_WHY_H
#define KPROFD_TEXT_FILE_WHY_H

#include <limits.h>
#include <stddef.h>

#define FILE_WHY_MAX (PATH_MAX + 64)

/*
 * Explains the errno of an open, or of a bind, of path: names the directory if
 * that is what is missing.  Returns buf.
 */
const char *file_why(char buf[FILE_WHY_MAX], const char *path, int err);
/* "a FIFO", "a device", ...: what is there that is not a regular file; or NULL. */
const char *file_special(const char *path);
/*
 * Why no database can be written at path, or NULL: SQLite takes the name for something
 * else, or something else is there.  It opens nothing: to open a FIFO waits, and to
 * open a device can do something.
 */
const char *file_not_for_db(char buf[FILE_WHY_MAX], const char *path);
/*
 * The file system that the file, or its directory, is in, "NFS", if other hosts serve it:
 * SQLite's write-ahead log is not for these.  NULL: another one, or it is not known.
 */
const char *file_remote(const char *path);
/* The path of a file in the directory of this program; NULL: it is not known. */
const char *self_path(char *buf, size_t n, const char *name);
/* The same for another program; or just its name, where it is not there. */
const char *self_program(char *buf, size_t n, const char *name);

#endif
