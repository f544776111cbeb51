/*
 * channel_tls.h - an encrypted channel.
 */
#ifndef KPROFD_CONN_TLS_CHANNEL_TLS_H
#define KPROFD_CONN_TLS_CHANNEL_TLS_H

#include <openssl/ssl.h>

#include "conn/channel.h"
#include "conn/tls/why.h"

/*
 * Takes the descriptor and the session, a client's, before its handshake; w is
 * copied.  verify: the node has to prove who it is.  NULL: out of memory; both are
 * then freed.
 */
struct channel *channel_tls(int fd, SSL *ssl, const struct tls_why *w,
    bool verify);
/* 1 when it is done; else as channel_read(). */
ssize_t channel_tls_handshake(struct channel *c);

#endif
