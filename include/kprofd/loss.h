/*
 * loss.h - everything that was not measured, counted by cause.
 *
 * A loss is data: it travels with the windows to the store and is shown
 * under every report.  The unit of each cause is named with it.
 *
 * The law, for each node by itself.  Every event of the node that begins a
 * request or a call, and that reached kprofd, is either in a request that was
 * handed on to stats, or handed on as a late call, or counted here once, as a
 * loss of that node: as a request that is collided, tripped, disconnected,
 * reloaded, running at the end, past a cap or met with an application's own
 * trace token, or as a call past a cap, stale, or lost with its request, or as
 * a bad event.  So
 *
 *	entries of the node = requests handed on that began there + lost there
 *	calls of the node = its calls in requests handed on, whichever node
 *	    these began on, + its late calls (but those that outlast
 *	    requests, which had them) + lost there
 *
 * and as the nodes do not share events, the same is true of their sums.  A
 * call is lost with its request on the node where it ran, though the request
 * itself is counted where it began.  Expired requests, those named _other,
 * calls whose ends were given up for the stack's cap, or because they outlasted
 * their request, or ran after it, for too long, and those that were left open
 * on a node that went or tripped, or at the end, while their requests went on
 * elsewhere, are handed on as well: their figures are what is lost.  So are
 * requests that were cut, whose number is estimated: an entry that sampling
 * passes over sends no event.
 *
 * Of messages, where they are timed: every send that reached kprofd has its
 * receive and is a wait that was handed on with its request, or is counted
 * here once, as a loss of the node it was sent on; but for those to nodes that
 * are not profiled, of which nothing is to be had.  A receive without its send
 * is counted on its own node, as unpaired, while its request is in flight.
 *
 *	sends of the node = waits of messages sent there + unreceived there +
 *	    sent late + past a cap + gone with their requests + sent away
 */
#ifndef KPROFD_LOSS_H
#define KPROFD_LOSS_H

#include <stdint.h>

enum kp_loss {
	KP_LOSS_SAMPLED_OUT,	/* requests: sampling passed them over */
	KP_LOSS_DROPPED,	/* events: emptied from the agent's queue */
	KP_LOSS_DROPPED_ENTRIES, /* requests: their entry was among those */
	KP_LOSS_TRIPPED,	/* requests: in flight when the agent tripped */
	KP_LOSS_DISCONNECTED,	/* requests: in flight when the target went */
	KP_LOSS_RELOADED,	/* requests: in flight when tiers.conf changed */
	KP_LOSS_UNSEEN,		/* requests: counted by the VM, no event came */
	KP_LOSS_UNARMED,	/* ms: nothing was armed after it had been */
	KP_LOSS_UNCOUNTED,	/* ms: of these, no agent was there: what was
				   called then nobody knows */
	KP_LOSS_TOO_HOT,	/* ms: functions of tiers were not armed */
	KP_LOSS_EXPIRED,	/* requests: no end within 60 s */
	KP_LOSS_COLLIDED,	/* requests: two with one label, both dropped */
	KP_LOSS_CUT,		/* requests: an unsampled entry took their token */
	KP_LOSS_REQUEST_CAP,	/* requests: too many in flight */
	KP_LOSS_CALL_CAP,	/* calls: too many in one request */
	KP_LOSS_STACK_CAP,	/* calls: too many open in one process */
	KP_LOSS_WITH_REQUEST,	/* calls: of requests that were lost */
	KP_LOSS_LEFT,		/* calls: of requests that began on another
				   node; open when theirs went */
	KP_LOSS_IDENTITY_CAP,	/* requests: identity counted as _other */
	KP_LOSS_STALE,		/* calls: token older than the tombstones */
	KP_LOSS_BAD_EVENT,	/* events: not understood */
	KP_LOSS_GAP,		/* batches: missing in the sequence */
	KP_LOSS_STORE,		/* rows: could not be written */
	KP_LOSS_UNWRITTEN,	/* requests: assembled, their window was not */
	KP_LOSS_TREE,		/* slow requests: not kept as trees */
	KP_LOSS_PAUSE,		/* events: the other end of a pause was not seen */
	KP_LOSS_PAUSE_CAP,	/* events: pauses, too many of one request or all */
	KP_LOSS_UNRECEIVED,	/* messages: in a mailbox when their request
				   closed, or with nobody to take them */
	KP_LOSS_UNPAIRED,	/* messages: received, their send not seen */
	KP_LOSS_MAIL_LATE,	/* messages: sent when their request had closed */
	KP_LOSS_MAIL_CAP,	/* messages: too many of one request or of all */
	KP_LOSS_MAIL_GONE,	/* messages: of requests that were lost */
	KP_LOSS_FOREIGN_TOKEN,	/* requests: their process had another's token */
	KP_LOSS_RUNNING,	/* requests: in flight when profiling ended */
	KP_LOSS_RUNNING_CALLS,	/* calls: open then, of requests that had ended
				   or began on another node */
	KP_LOSS_OUTLASTED,	/* calls: no end within 30 s of their request's,
				   or 60 s of their start after that */
	KP_LOSS_OUTLASTED_CUT,	/* calls: their end could not be waited for */
	KP_LOSS_COUNT
};

/* Stable name, as stored: "sampled_out". */
const char *kp_loss_name(enum kp_loss cause);
/* What it counts: "requests", "calls", "events", "batches", "rows" ... */
const char *kp_loss_unit(enum kp_loss cause);
/* One sentence for people. */
const char *kp_loss_help(enum kp_loss cause);

struct kp_losses {
	uint64_t n[KP_LOSS_COUNT];
};

#endif
