/*
 * tls_channel.h - an encrypted channel.
 */
#ifndef KPROFD_CONN_TLS_CHANNEL_H
#define KPROFD_CONN_TLS_CHANNEL_H

#include <openssl/ssl.h>

#include "conn/channel.h"
#include "conn/tls_errors.h"

/*
 * Takes the descriptor and the session, a client's, before its handshake; w is
 * copied.  verify: the node has to prove who it is.  NULL: out of memory; both are
 * then freed.
 */
struct channel *tls_channel_new(int fd, SSL *ssl, const struct tls_errors *w,
    bool verify);
/* 1 when it is done; else as channel_read(). */
ssize_t tls_channel_handshake(struct channel *c);

#endif
