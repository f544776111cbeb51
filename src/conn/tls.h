/*
 * tls.h - makes an encrypted channel of a connection to a node: the client's side of
 * OTP's inet_tls_dist.
 */
#ifndef KPROFD_CONN_TLS_H
#define KPROFD_CONN_TLS_H

#include "conn/channel.h"
#include "conn/dial.h"
#include "kprofd/clock.h"

/*
 * Reads the files of o, and shakes hands on fd, which it takes, before the deadline.
 * Both sides show certificates; the node's has to be for the host in its name, or for
 * its address if that is one, unless o says otherwise.  Thread-safe.
 *
 * KP_OK: *c is open.  Else fd is closed and why is one sentence, without the
 * node's name: KP_ESTATE certificates, ours or the node's; KP_ETIMEOUT, KP_EIO.
 */
enum kp_err tls_connect(struct channel **c, int fd, const struct tls_opts *o,
    const struct node_place *p, kp_mono_ns deadline, char *why, size_t n);

#endif
