/* secret.h - opens the file of a cookie or a token, and checks who may read it. */
#ifndef KPROFD_SECRET_H
#define KPROFD_SECRET_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Whether nobody but us and root may read the open file f, whose state is st.  False:
 * why says who may, and what to do; kind ("cookie file") and option are for that.
 *
 * A group may read it if nobody but us is known to be in it: a secret of Kubernetes
 * is root:GROUP 0440, and nobody can change that.
 */
bool kp_secret_is_private(FILE *f, const struct stat *st, const char *path,
    const char *kind, const char *option, char *why, size_t whylen);

/*
 * Opens it for reading, with its state in *st.  NULL: *why is the reason, a
 * static text.  It opens only regular files: a FIFO without a writer would
 * block it, and reading a device may do anything.
 */
FILE *kp_secret_open(const char *path, struct stat *st, const char **why);

#endif
