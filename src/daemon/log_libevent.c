/*
 * log_libevent.c - libevent's log callback, which limits warnings per minute,
 * and its fatal callback, which ends kprofd.
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include <event2/event.h>

#include "kprofd/clock.h"
#include "daemon/log.h"
#include "daemon/log_libevent.h"

#define MINUTE (60 * KP_NS_PER_S)

/* Several threads have a loop. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	kp_mono_ns since;	/* of this minute */
	unsigned n;
	uint64_t untold;
} said;

/* May one more be logged?  *untold: how many were not, before it. */
static bool
may_say(kp_mono_ns now, uint64_t *untold)
{
	bool may;

	*untold = 0;
	pthread_mutex_lock(&lock);
	if (said.since == 0 || now - said.since >= MINUTE) {
		*untold = said.untold;
		said.since = now;
		said.n = 0;
		said.untold = 0;
	}
	may = said.n < LOG_LIBEVENT_A_MINUTE;
	said.n += may;
	said.untold += !may;
	pthread_mutex_unlock(&lock);
	return may;
}

static void
on_log(int severity, const char *text)
{
	uint64_t untold;
	struct log_entry e = { .event = "libevent",
		.level = severity == EVENT_LOG_ERR ? LOG_LEVEL_ERROR :
		    severity == EVENT_LOG_WARN ? LOG_LEVEL_WARNING :
		    LOG_LEVEL_DEBUG };

	if (severity != EVENT_LOG_ERR && !may_say(kp_mono_now(), &untold))
		return;
	if (severity != EVENT_LOG_ERR && untold > 0)
		log_warn("libevent", NULL, "%llu more warnings of libevent "
		    "were not logged", (unsigned long long)untold);
	log_put(&e, "libevent: %s", text);
}

/* It has logged why.  To return is not allowed, nor is its memory sound. */
static void
on_fatal(int error)
{
	log_error("libevent", NULL, "libevent cannot go on (error %d): kprofd "
	    "ends, its agents leave within 5 s", error);
	_exit(1);
}

void
log_libevent(void)
{
	event_set_log_callback(on_log);
	event_set_fatal_callback(on_fatal);
}
