/* secret.h - opens the file of a cookie or a token, and checks its mode. */
#ifndef KPROFD_SECRET_H
#define KPROFD_SECRET_H

#include <stdio.h>
#include <sys/stat.h>

/*
 * Those bits of its mode that must not be set.  credentials: the value of
 * $CREDENTIALS_DIRECTORY, or NULL.
 */
unsigned kp_secret_mode_bad(const char *path, const char *credentials);

/*
 * Opens it for reading, with its state in *st.  NULL: *why says why not, in
 * static text.  Only a regular file is one: a FIFO nobody writes to would be
 * waited for, reading a device may do anything.
 */
FILE *kp_secret_open(const char *path, struct stat *st, const char **why);

#endif
