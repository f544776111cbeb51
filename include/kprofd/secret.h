/* secret.h - opens the file of a cookie or a token, and checks its mode. */
#ifndef KPROFD_SECRET_H
#define KPROFD_SECRET_H

#include <stdio.h>
#include <sys/stat.h>

/*
 * Returns the bits that its mode must not have.  credentials: the value of
 * $CREDENTIALS_DIRECTORY, or NULL.
 */
unsigned kp_secret_mode_bad(const char *path, const char *credentials);

/*
 * Opens it for reading, with its state in *st.  NULL: *why is the reason, a
 * static text.  It opens only regular files: a FIFO without a writer would
 * block it, and reading a device may do anything.
 */
FILE *kp_secret_open(const char *path, struct stat *st, const char **why);

#endif
