/* secret.h - may others read the file of a cookie, or of a token?  Pure. */
#ifndef KPROFD_SECRET_H
#define KPROFD_SECRET_H

/*
 * Those bits of its mode that must not be set.  credentials: the value of
 * $CREDENTIALS_DIRECTORY, or NULL.
 */
unsigned kp_secret_mode_bad(const char *path, const char *credentials);

#endif
