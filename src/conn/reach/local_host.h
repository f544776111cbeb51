/*
 * local_host.h - finds the host in the name of a node of this machine, which epmd
 * does not know.
 */
#ifndef KPROFD_CONN_REACH_LOCAL_HOST_H
#define KPROFD_CONN_REACH_LOCAL_HOST_H

#include <stddef.h>

/*
 * Writes the host that the node was started with, by the arguments of the VMs
 * that run here: -name shop@10.0.0.1, -sname shop.  If they do not show it, the
 * node has probably a short name: writes this machine's.
 */
void local_host(char *host, size_t n, const char *alive);

#endif
