/*
 * loss.h - counts everything that was not measured, by cause.
 *
 * A loss is data: it travels with the windows to the store, and every report
 * shows it.  Each cause has a unit.
 *
 * An invariant holds for each node by itself.  Every event of the node that
 * begins a request or a call, and that reaches kprofd, is either in a request
 * that was passed to stats, or passed as a late call, or counts here once, as a
 * loss of that node: as a request that is collided, tripped, disconnected,
 * reloaded, running at the end, past a cap, or with an
 * application's own trace token, or as a call past a cap, stale, crossed, or lost
 * with its request, or as a bad event.  So
 *
 *	entries of the node = requests passed that began there + lost there
 *	calls of the node = its calls in requests passed, of any node, + its
 *	    late calls (except those that outlast requests, which have them) +
 *	    lost there
 *
 * and as the nodes do not share events, it holds for their sums too.  A call is
 * lost with its request on the node where it ran, though the request itself
 * counts where it began.  Some are passed to stats with incomplete figures:
 * expired requests; those named _other; calls without an end because of the
 * stack's cap, or because they outlasted their request, or ran after it, for
 * too long; calls that were left open on a node that disconnected or tripped,
 * or at the end, while their requests went on elsewhere; and requests that were
 * cut, whose number is an estimate, since an unsampled entry sends no event.
 *
 * If messages are timed, every send that reaches kprofd either has its receive
 * and is a wait that was passed with its request, or counts here once, as a
 * loss of the sending node.  Sends to nodes that are not profiled do not count.
 * A receive without its send counts on its own node, as unpaired, while its
 * request is in flight.
 *
 *	sends of the node = waits of messages sent there + unreceived there +
 *	    sent late + past a cap + lost with their requests + crossed
 *
 * If stacks are sampled, every sample that the sampler took is in a cell of the
 * node, belongs to a process that was idle, or counts here once (stack_other:
 * and is in a cell).
 */
#ifndef KPROFD_LOSS_H
#define KPROFD_LOSS_H

#include <stdint.h>

enum kp_loss {
	KP_LOSS_SAMPLED_OUT,	/* requests: sampling passed them over */
	KP_LOSS_DROPPED,	/* events: emptied from the agent's queue */
	KP_LOSS_DROPPED_ENTRIES, /* requests: their entry was among those */
	KP_LOSS_TRIPPED,	/* requests: in flight when the agent tripped */
	KP_LOSS_DISCONNECTED,	/* requests: in flight at a lost connection */
	KP_LOSS_RELOADED,	/* requests: in flight when tiers.conf changed */
	KP_LOSS_SLICE,		/* requests: in flight long after their slice of time */
	KP_LOSS_UNSEEN,		/* requests: counted by the VM, no event came */
	KP_LOSS_UNARMED,	/* ms: nothing was armed after it had been */
	KP_LOSS_UNCOUNTED,	/* ms: of these, without an agent: calls then
				   are unknown */
	KP_LOSS_TOO_HOT,	/* ms: functions of tiers were not armed */
	KP_LOSS_EXPIRED,	/* requests: no end within 60 s */
	KP_LOSS_COLLIDED,	/* requests: two with one label, both dropped */
	KP_LOSS_CUT,		/* requests: an unsampled entry took their token */
	KP_LOSS_REQUEST_CAP,	/* requests: too many in flight */
	KP_LOSS_CALL_CAP,	/* calls: too many in one request */
	KP_LOSS_STACK_CAP,	/* calls: too many open in one process */
	KP_LOSS_WITH_REQUEST,	/* calls: of requests that were lost */
	KP_LOSS_LEFT,		/* calls: of requests that began on another
				   node; open when their own disconnected */
	KP_LOSS_IDENTITY_CAP,	/* requests: type counted as _other */
	KP_LOSS_LABEL_CAP,	/* calls: label counted as _other, or in another
				   type's figures of that label */
	KP_LOSS_STALE,		/* calls: token older than the tombstones */
	KP_LOSS_CROSSED,	/* calls: token of another request, from a process
				   that is not known to work for any; or the last
				   call of a server before it answered with one */
	KP_LOSS_BAD_EVENT,	/* events: not understood */
	KP_LOSS_GAP,		/* batches: missing in the sequence */
	KP_LOSS_STORE,		/* rows: could not be written */
	KP_LOSS_UNWRITTEN,	/* requests: assembled, but not written */
	KP_LOSS_TREE,		/* slow requests: not kept as trees */
	KP_LOSS_PAUSE,		/* events: the other end of a pause was not seen */
	KP_LOSS_PAUSE_CAP,	/* events: pauses, too many of one request or all */
	KP_LOSS_UNRECEIVED,	/* messages: in a mailbox when their request
				   closed, or without a receiver */
	KP_LOSS_UNPAIRED,	/* messages: received, but no send seen */
	KP_LOSS_MAIL_LATE,	/* messages: sent when their request had closed */
	KP_LOSS_MAIL_CAP,	/* messages: too many of one request or of all */
	KP_LOSS_MAIL_GONE,	/* messages: of requests that were lost */
	KP_LOSS_MAIL_CROSSED,	/* messages: token of another request, from a
				   process that is not known to work for any */
	KP_LOSS_FOREIGN_TOKEN,	/* requests: the process had a foreign token */
	KP_LOSS_RUNNING,	/* requests: in flight when profiling ended */
	KP_LOSS_RUNNING_CALLS,	/* calls: open then, of requests that had ended
				   or began on another node */
	KP_LOSS_OUTLASTED,	/* calls: no end within 30 s of their request's,
				   or 60 s of their start after that */
	KP_LOSS_OUTLASTED_CUT,	/* calls: tracing stopped before their end */
	KP_LOSS_SAMPLE_CAP,	/* samples: too many waited for their requests,
				   or there was no memory for them */
	KP_LOSS_SAMPLE_GONE,	/* samples: of requests that were lost, or without
				   a call where the token may be another's */
	KP_LOSS_SAMPLE_UNSENT,	/* samples: dropped by the target's sampler */
	KP_LOSS_SAMPLE_CROWD,	/* samples: not taken, of too many processes
				   at work at a time */
	KP_LOSS_SAMPLE_LATE,	/* turns of the target's sampler that came late */
	KP_LOSS_STACK_OTHER,	/* samples: counted with the stack _other */
	KP_LOSS_CONNECTING,	/* requests: in flight when a node connected */
	KP_LOSS_TWICE,		/* requests: counted, and the one around each, too */
	KP_LOSS_TIMED,		/* requests: of those that sampling passed over, ended
				   with their time and type known */
	KP_LOSS_COUNT
};

/* Returns the stable name, as stored: "sampled_out". */
const char *kp_loss_name(enum kp_loss cause);
/* Returns its unit: "requests", "calls", "events", "batches", "rows" ... */
const char *kp_loss_unit(enum kp_loss cause);
/* Returns a phrase for people, to be read after count and unit. */
const char *kp_loss_help(enum kp_loss cause);

/* What the sums by unit mean, in the exports. */
#define KP_LOST_REQUESTS "Requests that are not in the figures, or not whole " \
	"(sampled_out: the others stand for them; timed: part of these)."
#define KP_LOST_CALLS "Calls that are not in the figures, or not whole."
#define KP_LOST_MESSAGES "Messages whose wait in a mailbox is not in the figures."
#define KP_LOST_SAMPLES "Samples of stacks that are not in the figures, or not " \
	"with their stack."
#define KP_LOST_TURNS "Turns of the stack sampler that came late: the time until " \
	"then has no samples."
#define KP_LOST_EVENTS "Events that were not taken in."
#define KP_LOST_BATCHES "Batches of events that are missing."
#define KP_LOST_ROWS "Rows that were not written to the database."
#define KP_LOST_TIME "Time without tracing after it had begun (unarmed), the " \
	"part of it without an agent (uncounted), and time without some " \
	"functions of tiers (too_hot)."

struct kp_losses {
	uint64_t n[KP_LOSS_COUNT];
};

#endif
