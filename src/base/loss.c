/* loss.c - names the losses. */
#include "kprofd/loss.h"

static const struct {
	const char *name, *unit, *help;
} losses[KP_LOSS_COUNT] = {
	[KP_LOSS_SAMPLED_OUT] = { "sampled_out", "requests",
	    "passed over by sampling" },
	[KP_LOSS_DROPPED] = { "dropped", "events",
	    "emptied from the agent's queue when tracing was switched off" },
	[KP_LOSS_DROPPED_ENTRIES] = { "dropped_entries", "requests",
	    "their start was among the dropped events" },
	[KP_LOSS_TRIPPED] = { "tripped", "requests",
	    "in flight when tracing was paused (overload, or kprof pause)" },
	[KP_LOSS_DISCONNECTED] = { "disconnected", "requests",
	    "in flight when the connection to the target ended" },
	[KP_LOSS_RELOADED] = { "reloaded", "requests",
	    "in flight when another tiers.conf took effect" },
	[KP_LOSS_UNSEEN] = { "unseen", "requests",
	    "not traced: tracing was off; counted by the target" },
	[KP_LOSS_UNARMED] = { "unarmed", "ms",
	    "of this time tracing was off or had parts missing: connection "
	    "lost, overload, pause, or another tool took trace patterns or "
	    "flags of kprofd's" },
	[KP_LOSS_TOO_HOT] = { "too_hot", "ms",
	    "of this time functions of tiers were not traced: they are called "
	    "too often (see the events)" },
	[KP_LOSS_UNCOUNTED] = { "uncounted", "ms",
	    "of the unarmed time no agent was in the target: the number of "
	    "requests then is not known" },
	[KP_LOSS_EXPIRED] = { "expired", "requests",
	    "no end seen within 60 s" },
	[KP_LOSS_COLLIDED] = { "collided", "requests",
	    "two had the same label by chance, and both were dropped" },
	[KP_LOSS_CUT] = { "cut", "requests",
	    "cut short by an inner one that was sampled out (estimate)" },
	[KP_LOSS_REQUEST_CAP] = { "request_cap", "requests",
	    "too many were in flight" },
	[KP_LOSS_CALL_CAP] = { "call_cap", "calls",
	    "too many in one request" },
	[KP_LOSS_STACK_CAP] = { "stack_cap", "calls",
	    "left unfinished: too many open in one process" },
	[KP_LOSS_WITH_REQUEST] = { "with_request", "calls",
	    "lost together with their request" },
	[KP_LOSS_LEFT] = { "left", "calls",
	    "left unfinished: open on a node that went away or was overloaded, "
	    "of another node's requests" },
	[KP_LOSS_IDENTITY_CAP] = { "identity_cap", "requests",
	    "counted under _other: too many request types" },
	[KP_LOSS_STALE] = { "stale", "calls",
	    "their token belongs to no request of the last 30 s" },
	[KP_LOSS_BAD_EVENT] = { "bad_event", "events",
	    "not understood" },
	[KP_LOSS_GAP] = { "gap", "batches",
	    "missing between two that came" },
	[KP_LOSS_STORE] = { "store", "rows",
	    "could not be written to the database" },
	[KP_LOSS_UNWRITTEN] = { "unwritten", "requests",
	    "measured, but their window could not be written" },
	[KP_LOSS_TREE] = { "tree", "requests",
	    "slow, but too many to keep a trace of each" },
	[KP_LOSS_PAUSE] = { "pause", "events",
	    "of garbage collection or scheduling, whose other end was not "
	    "seen" },
	[KP_LOSS_PAUSE_CAP] = { "pause_cap", "events",
	    "of garbage collection or scheduling, too many to keep" },
	[KP_LOSS_UNRECEIVED] = { "unreceived", "messages",
	    "taken from no mailbox by the end of their request" },
	[KP_LOSS_UNPAIRED] = { "unpaired", "messages",
	    "received, but it was not seen when they were sent" },
	[KP_LOSS_MAIL_LATE] = { "mail_late", "messages",
	    "sent when their request had closed" },
	[KP_LOSS_MAIL_CAP] = { "mail_cap", "messages",
	    "not followed: too many of one request, or of all" },
	[KP_LOSS_MAIL_GONE] = { "mail_gone", "messages",
	    "lost together with their request" },
	[KP_LOSS_FOREIGN_TOKEN] = { "foreign_token", "requests",
	    "not traced: the process carried the application's own trace "
	    "token" },
	[KP_LOSS_RUNNING] = { "running", "requests",
	    "running when profiling ended" },
	[KP_LOSS_RUNNING_CALLS] = { "running_calls", "calls",
	    "left unfinished: running when profiling ended, after the end of "
	    "their request or away from its node" },
	[KP_LOSS_OUTLASTED] = { "outlasted", "calls",
	    "left unfinished: no end seen within 30 s of their request's, or 60 s "
	    "of their own start after that" },
	[KP_LOSS_OUTLASTED_CUT] = { "outlasted_cut", "calls",
	    "left unfinished: still running after their request when tracing "
	    "stopped (overload, pause, reload, lost connection), or too many "
	    "at once" },
};

const char *
kp_loss_name(enum kp_loss cause)
{
	return losses[cause].name;
}

const char *
kp_loss_unit(enum kp_loss cause)
{
	return losses[cause].unit;
}

const char *
kp_loss_help(enum kp_loss cause)
{
	return losses[cause].help;
}
