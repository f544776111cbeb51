/*
 * log.c - formats an entry as text or as JSON, and writes it to the log file,
 * to stderr, or to stderr as journald reads it; and sends a service manager a
 * datagram for each change: READY, STOPPING, STATUS.
 *
 * Every line is one write to a file opened for appending: lines of several
 * processes do not mix, and the file may be truncated or moved at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/log.h"
#include "kprofd/clock.h"
#include "text/file_why.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

#define MESSAGE_MAX 2048	/* bytes of a message; longer ones are cut */
#define LINE_BYTES 32768	/* with escapes and fields */

static struct {
	struct log_opts o;
	FILE *file;		/* NULL: stderr */
	bool journal;		/* stderr is read by journald */
	bool failed;		/* the last line was not written, which is on stderr */
	char last_error[512];
} out = { .o = { .name = "kprofd", .least = LOG_LEVEL_INFO } };

/* For the streams and the limit: every thread may log. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	const char *name, *prefix;
	int priority;		/* of syslog(3) */
} levels[] = {
	[LOG_LEVEL_DEBUG] = { "debug", "", 7 },
	[LOG_LEVEL_INFO] = { "info", "", 6 },
	[LOG_LEVEL_WARNING] = { "warning", "warning: ", 4 },
	[LOG_LEVEL_ERROR] = { "error", "", 3 },
};

/*
 * $JOURNAL_STREAM has the device and inode of the stream that journald reads; a
 * child with another stderr inherits the variable, too.
 * Source: systemd.exec(5), JOURNAL_STREAM; the prefixes: sd-daemon(3).
 */
static bool
stderr_is_journal(void)
{
	const char *env = getenv("JOURNAL_STREAM");
	uintmax_t dev, ino;
	struct stat st;

	return env != NULL && sscanf(env, "%ju:%ju", &dev, &ino) == 2 &&
	    fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
	    st.st_ino == ino;
}

FILE *
log_append_to(const char *path, unsigned mode)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC |
	    O_NONBLOCK, mode);
	FILE *f = fd >= 0 ? fdopen(fd, "a") : NULL;

	if (f == NULL && fd >= 0)
		close(fd);
	if (f != NULL)
		setvbuf(f, NULL, _IOFBF, LINE_BYTES);
	return f;
}

bool
log_open(const struct log_opts *o)
{
	char why[FILE_WHY_MAX];

	out.o = *o;
	out.journal = stderr_is_journal();
	if (o->file == NULL)
		return true;
	out.file = log_append_to(o->file, 0640);
	if (out.file == NULL)
		log_error("log", NULL, "cannot write to '%s': %s (see "
		    "-log-file)", o->file, file_why(why, o->file, errno));
	return out.file != NULL;
}

void
log_close(void)
{
	if (out.file != NULL)
		fclose(out.file);
	out.file = NULL;
}

bool
log_has_file(void)
{
	return out.file != NULL;
}

void
log_reopen(void)
{
	FILE *f = log_append_to(out.o.file, 0640);

	if (f == NULL) {
		log_error("log", NULL, "cannot open '%s' again: %s; kprofd "
		    "still logs to the old file", out.o.file, strerror(errno));
		return;
	}
	pthread_mutex_lock(&lock);
	fclose(out.file);
	out.file = f;
	pthread_mutex_unlock(&lock);
	log_debug("log", NULL, "opened '%s' again", out.o.file);
}

/* ---- lines ---- */

void
log_put_json(struct kp_buf *b, const struct log_entry *e, const char *message)
{
	const struct log_field *f;
	struct json j;

	json_open(&j, b);
	json_time(&j, "time", kp_wall_now());
	json_string(&j, "level", levels[e->level].name);
	json_string(&j, "event", e->event);
	if (e->target != NULL)
		json_string(&j, "target", e->target);
	else
		json_null(&j, "target");
	json_string(&j, "message", message);
	json_object(&j, "fields");
	for (f = e->fields; f < e->fields + LOG_FIELDS_MAX && f->key != NULL;
	    f++)
		if (f->text != NULL)
			json_string(&j, f->key, f->text);
		else
			json_int(&j, f->key, f->number);
	json_end(&j);
	json_close(&j);
}

/* A file needs the time.  journald adds the time and name, and reads the level. */
static void
put_text(struct kp_buf *b, const struct log_entry *e, const char *message,
    bool to_stderr)
{
	char when[TIMEFMT_MAX];

	if (!to_stderr)
		kp_buf_printf(b, "%s ", timefmt_iso(when, kp_wall_now()));
	if (to_stderr && out.journal)
		kp_buf_printf(b, "<%d>", levels[e->level].priority);
	else
		kp_buf_printf(b, "%s: ", out.o.name);
	kp_buf_str(b, levels[e->level].prefix);
	text_put(b, message);
	kp_buf_u8(b, '\n');
}

/* Reports once that the file cannot be written. */
static void
write_bytes(FILE *to, const void *p, size_t n)
{
	bool ok = fwrite(p, 1, n, to) == n && fflush(to) == 0;
	int error = errno;

	if (!ok && to != stderr && !out.failed)
		fprintf(stderr, "%s: cannot write to '%s': %s\n", out.o.name,
		    out.o.file, strerror(error));
	if (to != stderr)
		out.failed = !ok;
}

static void
write_line(FILE *to, const struct log_entry *e, const char *message)
{
	struct kp_buf b;

	kp_buf_init(&b, LINE_BYTES);
	if (out.o.json)
		log_put_json(&b, e, message);
	else
		put_text(&b, e, message, to == stderr);
	write_bytes(to, b.p, b.err == KP_OK ? b.len : 0);
	kp_buf_free(&b);
}

void
log_put(const struct log_entry *e, const char *fmt, ...)
{
	char message[MESSAGE_MAX];
	va_list ap;

	if (e->level < out.o.least)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&lock);
	if (e->level == LOG_LEVEL_ERROR)
		snprintf(out.last_error, sizeof(out.last_error), "%.511s",
		    message);
	if (out.file != NULL)
		write_line(out.file, e, message);
	/* who started kprofd sees errors, even with a log file */
	if (out.file == NULL || e->level == LOG_LEVEL_ERROR)
		write_line(stderr, e, message);
	pthread_mutex_unlock(&lock);
}

void
log_last_error(char *buf, size_t n)
{
	pthread_mutex_lock(&lock);
	snprintf(buf, n, "%s", out.last_error);
	pthread_mutex_unlock(&lock);
}

bool
log_is_json(void)
{
	return out.o.json;
}

void
log_lines(enum log_level level, const char *text, size_t n)
{
	bool both = !out.o.json || level == LOG_LEVEL_ERROR;

	pthread_mutex_lock(&lock);
	if (out.file != NULL)
		write_bytes(out.file, text, n);
	if (out.file == NULL || both)
		write_bytes(stderr, text, n);
	pthread_mutex_unlock(&lock);
}

/* ---- libevent ---- */

#define MINUTE (60 * KP_NS_PER_S)

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

/* ---- the service manager ---- */

#define STATUS_MAX 2048	/* bytes */

static void
notify_send(const char *p, size_t n)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	struct timeval patience = { 1, 0 };
	size_t len = path != NULL ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(sun.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (path[0] == '@')
		sun.sun_path[0] = '\0';		/* Linux's abstract names */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
	    sizeof(patience));
	(void)sendto(fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&sun,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

bool
notify_is_wanted(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

void
notify_ready(void)
{
	notify_send("READY=1", strlen("READY=1"));
}

void
notify_stopping(void)
{
	notify_send("STOPPING=1", strlen("STOPPING=1"));
}

void
notify_status(const char *state, const char *text)
{
	struct kp_buf b;

	kp_buf_init(&b, STATUS_MAX);
	kp_buf_str(&b, "STATUS=");
	text_put(&b, state);
	if (text[0] != '\0') {
		kp_buf_str(&b, ": ");
		text_put(&b, text);
	}
	if (b.err == KP_OK)
		notify_send((const char *)b.p, b.len);
	kp_buf_free(&b);
}
