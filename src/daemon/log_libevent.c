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

#define MINUTE (60 * KP_NS_PER_S)

/* Several threads have an event loop. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	kp_mono_ns since;	/* start of the minute */
	unsigned n;		/* logged in it */
	uint64_t dropped;	/* in it */
} limit;

/* May a warning be logged?  *dropped: in the minute before, if it is over. */
static bool
may_log(kp_mono_ns now, uint64_t *dropped)
{
	bool may;

	*dropped = 0;
	pthread_mutex_lock(&lock);
	if (limit.since == 0 || now - limit.since >= MINUTE) {
		*dropped = limit.dropped;
		limit.since = now;
		limit.n = 0;
		limit.dropped = 0;
	}
	may = limit.n < LOG_LIBEVENT_A_MINUTE;
	limit.n += may;
	limit.dropped += !may;
	pthread_mutex_unlock(&lock);
	return may;
}

static void
on_log(int severity, const char *text)
{
	uint64_t dropped = 0;
	struct log_entry e = { .event = "libevent",
		.level = severity == EVENT_LOG_ERR ? LOG_LEVEL_ERROR :
		    severity == EVENT_LOG_WARN ? LOG_LEVEL_WARNING :
		    LOG_LEVEL_DEBUG };

	if (severity != EVENT_LOG_ERR && !may_log(kp_mono_now(), &dropped))
		return;
	if (dropped > 0)
		log_warn("libevent", NULL, "%llu more warnings of libevent "
		    "were not logged", (unsigned long long)dropped);
	log_put(&e, "libevent: %s", text);
}

/* libevent has logged why.  This may not return. */
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
