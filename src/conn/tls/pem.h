/*
 * pem.h - reads certificates and keys from PEM files.
 *
 * Paths are relative to the working directory; messages have all of them.
 */
#ifndef KPROFD_CONN_TLS_PEM_H
#define KPROFD_CONN_TLS_PEM_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#include "kprofd/err.h"

#define PEM_PATH_MAX 8192u	/* bytes of a working directory and a path */

/* The whole path of a file; returns buf. */
const char *pem_path(char buf[PEM_PATH_MAX], const char *path);

/*
 * The bytes of a file of at most max bytes, malloced, with a NUL after them.  kind:
 * "the key file", and option: "-tls-key", for `why`.  mode: the file's.  NULL: why is
 * one line.
 */
char *pem_read(const char *path, const char *kind, const char *option,
    unsigned *mode, size_t max, size_t *n, char *why, size_t whylen);
/*
 * False, and why is one line: everybody may read a file of this mode, which has a
 * secret.  Nodes often share theirs with a group.
 */
bool pem_is_private(const char *path, const char *kind, unsigned mode, char *why,
    size_t n);

/*
 * Makes the context present this certificate, with those of its file that follow
 * it, and its key.  Refuses a certificate that is not valid now.
 */
enum kp_err pem_use_pair(SSL_CTX *ctx, const char *cert, const char *key,
    const char *password, char *why, size_t n);
/* Makes it trust all certificates of this file. */
enum kp_err pem_trust(SSL_CTX *ctx, const char *ca, char *why, size_t n);

#endif
