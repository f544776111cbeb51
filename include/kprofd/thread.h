/* thread.h - starts threads beside the one that runs the event loop. */
#ifndef KPROFD_THREAD_H
#define KPROFD_THREAD_H

#include <pthread.h>

/*
 * Calls pthread_create(3) with every signal blocked: signals are for the loop's
 * thread, and would interrupt waits in others.  Returns 0 or an errno.
 */
int kp_thread_start(pthread_t *thread, void *(*main)(void *), void *arg);

#endif
