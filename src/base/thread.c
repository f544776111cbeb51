/*
 * thread.c - starts a thread with all signals blocked, so that the main thread
 * receives them.
 */
#include <signal.h>
#include <stddef.h>

#include "kprofd/thread.h"

int
kp_thread_start(pthread_t *thread, void *(*main)(void *), void *arg)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(thread, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e;
}
