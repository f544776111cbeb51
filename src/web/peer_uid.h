/*
 * peer_uid.h - whose process is at the other end of a connection.
 *
 * Anything that runs on the machine reaches the loopback and can send the
 * headers of a browser.  The control socket belongs to its owner alone, so what
 * the daemon does for a web client must be for its owner alone, too.
 */
#ifndef KPROFD_WEB_PEER_UID_H
#define KPROFD_WEB_PEER_UID_H

#include <stdbool.h>

/*
 * Of a connected TCP socket.  True: the other end is on this machine, and is
 * of the user that we run as, or root's.  False also where that is not known.
 */
bool peer_is_ours(int fd);

#endif
