/* thread.h - starts threads beside the one that runs the event loop. */
#ifndef KPROFD_THREAD_H
#define KPROFD_THREAD_H

#include <pthread.h>

/*
 * As pthread_create(3), with every signal blocked: they are for the loop's
 * thread, and would cut short what this one waits in.  Returns 0 or an errno.
 */
int kp_thread_start(pthread_t *thread, void *(*main)(void *), void *arg);

#endif
