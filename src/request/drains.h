/*
 * drains.h - servers that answer a request while they carry another's token.
 *
 * One that drains its mailbox into a queue of its own carries the token of the
 * message that it took last while it handles an earlier one (RabbitMQ's
 * gen_server2, priority queues, batchers).  Its calls count for the wrong
 * request, and no event is lost, so a single event cannot show it.  But its
 * answer carries that token too, so the process that asked goes on, in the
 * midst of its own request, with the token of another one that this server gave
 * it.
 *
 * An answer that waits for another request looks the same (gen_server:reply/2).
 * Servers without traced calls are not reported.  An answer from the process of
 * a request inside a request does not count.
 *
 * Any number of processes may answer so, each once or a few times: an answer of
 * one that there is no room for brings the place of each other one nearer to
 * being free.  A server with more than one in DRAINS_MAX + 1 of all such
 * answers keeps its place.
 */
#ifndef KPROFD_REQUEST_DRAINS_H
#define KPROFD_REQUEST_DRAINS_H

#include <stdbool.h>
#include <stdint.h>

#define DRAINS_MAX 16		/* servers that are watched at a time */
#define DRAINS_LEAST 10		/* fewer answers may be an accident */
#define DRAINS_PART 10		/* at least one answer for ten of its calls */
#define DRAINS_KEEP 100		/* others that pass before it loses its place */

struct drain {
	uint64_t proc;
	uint32_t answers;	/* with the token of another request */
	uint32_t calls;		/* of its own since the first of these */
	uint32_t fn;		/* the last of them */
	uint8_t keep;		/* answers, less those of who found no room */
	bool told;
};

struct drains {
	struct drain v[DRAINS_MAX];
	unsigned n;
};

/* proc has given an answer with a token that is not the asker's. */
void drains_answer(struct drains *d, uint64_t proc);
/*
 * A traced call in any process.  True, once for each server: it is one, whose
 * calls are of this function.
 */
bool drains_call(struct drains *d, uint64_t proc, uint32_t fn);
/* Its events end: its servers are reported again when they are met again. */
void drains_forget(struct drains *d, uint32_t node);

#endif
