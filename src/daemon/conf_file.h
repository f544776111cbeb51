/*
 * conf_file.h - reads tiers.conf, and reports what is wrong with it; keeps
 * configurations that are no longer in force until the store has written the
 * windows and trees that borrow their texts.
 */
#ifndef KPROFD_DAEMON_CONF_FILE_H
#define KPROFD_DAEMON_CONF_FILE_H

#include <event2/event.h>

#include "daemon/log.h"
#include "kprofd/config.h"
#include "kprofd/nodes.h"
#include "store/store.h"

struct conf_file {
	const char *path;	/* borrowed */
	char *text;
	size_t len;
	struct kp_conf *conf;
	size_t warnings;	/* about the file */
};

/* Logs the mistakes; appends them to `mistakes` too, if that is not NULL. */
enum kp_err conf_file_load(struct conf_file *f, const char *path,
    struct kp_buf *mistakes);
/* Parses its text; the caller frees *diags.  On error it has no conf. */
enum kp_err conf_file_parse(struct conf_file *f, struct kp_diags *diags);
void conf_file_free(struct conf_file *f);
/* Logs the mistakes that a target found, and appends; node: its name, or NULL. */
void conf_file_diags(const struct conf_file *f, const struct kp_diags *d,
    const char *node, struct kp_buf *mistakes);
/*
 * The same for another reader: gives put all as one text, each with its source line;
 * or, json, each as a line of a JSON log.
 */
typedef void conf_file_put_fn(void *ctx, enum log_level level, const char *text,
    size_t n);
void conf_file_diags_put(const struct conf_file *f, const struct kp_diags *d,
    const char *node, bool json, conf_file_put_fn *put, void *ctx);
/* Prints a line on stdout: how many tiers, functions, entries. */
void conf_file_summary(const struct conf_file *f);

/*
 * Reads the file of -target-file; the list is empty where path is NULL.  False: `why`
 * is one line for people.
 */
bool targets_file_read(const char *path, struct kp_node_list *list, char *why, size_t n);

#define DEFERRED_MAX 16		/* objects, of some megabytes each */
#define DEFERRED_CALLS 16
#define DEFERRED_RELOAD 2	/* of one reload: a configuration and its requests */

struct deferred;

/* NULL when out of memory. */
struct deferred *deferred_new(struct event_base *base, struct kp_store *store);
/* Call it after the store is closed.  Frees what it holds. */
void deferred_free(struct deferred *p);
/* Is there room for n more?  If the database takes nothing, there may not be. */
bool deferred_room(const struct deferred *p, size_t n);
/* Calls free_fn(what) later.  The caller has checked deferred_room(). */
void deferred_put(struct deferred *p, void *what, void (*free_fn)(void *));
/*
 * Calls done(what, ok), which frees what, when a sync that begins now has ended;
 * or only frees it, if kprofd ends before.  The caller has checked
 * deferred_may_call(): not too many wait.
 */
bool deferred_may_call(const struct deferred *p);
void deferred_call(struct deferred *p, void *what,
    void (*done)(void *what, bool ok));
/* Call it from time to time: repeats a sync that has failed. */
void deferred_tick(struct deferred *p);

/* Why {messages, true} is refused with -probe relay. */
extern const char conf_file_messages[];

#endif
