/*
 * loss.c - names the losses: the one table of their codes, units and phrases.
 * priv/doc/losses.md has a line for each, which test_losses.c compares.
 */
#include "kprofd/loss.h"

static const struct {
	const char *name, *unit, *help;
} losses[KP_LOSS_COUNT] = {
	[KP_LOSS_SAMPLED_OUT] = { "sampled_out", "requests",
	    "passed over by sampling; the others stand for them" },
	[KP_LOSS_DROPPED] = { "dropped", "events",
	    "thrown away unread: tracing was switched off" },
	[KP_LOSS_DROPPED_ENTRIES] = { "dropped_entries", "requests",
	    "not measured: their start was among dropped events" },
	[KP_LOSS_TRIPPED] = { "tripped", "requests",
	    "cut off: tracing was paused, by overload, kprof pause or a trace of one request" },
	[KP_LOSS_DISCONNECTED] = { "disconnected", "requests",
	    "cut off: the connection to the target ended" },
	[KP_LOSS_RELOADED] = { "reloaded", "requests",
	    "cut off: another tiers.conf took effect" },
	[KP_LOSS_SLICE] = { "slice", "requests",
	    "cut off: they ran on for 5 s after the slice of time that they began in" },
	[KP_LOSS_UNSEEN] = { "unseen", "requests",
	    "not traced: tracing was off" },
	[KP_LOSS_UNARMED] = { "unarmed", "ms",
	    "without tracing, or with parts of it missing" },
	[KP_LOSS_UNCOUNTED] = { "uncounted", "ms",
	    "without an agent in the target: nobody counted requests" },
	[KP_LOSS_TOO_HOT] = { "too_hot", "ms",
	    "without functions of tiers that are called too often" },
	[KP_LOSS_EXPIRED] = { "expired", "requests",
	    "without a time: no end was seen within 60 s" },
	[KP_LOSS_COLLIDED] = { "collided", "requests",
	    "dropped: two had the same label" },
	[KP_LOSS_CUT] = { "cut", "requests",
	    "cut short by an inner request that sampling passed over" },
	[KP_LOSS_REQUEST_CAP] = { "request_cap", "requests",
	    "not measured: too many were in flight" },
	[KP_LOSS_CALL_CAP] = { "call_cap", "calls",
	    "not measured: too many in one request" },
	[KP_LOSS_STACK_CAP] = { "stack_cap", "calls",
	    "left unfinished: too many open in one process" },
	[KP_LOSS_WITH_REQUEST] = { "with_request", "calls",
	    "lost together with their request" },
	[KP_LOSS_LEFT] = { "left", "calls",
	    "left unfinished: their node went away or was overloaded" },
	[KP_LOSS_IDENTITY_CAP] = { "identity_cap", "requests",
	    "counted under _other: too many request types" },
	[KP_LOSS_LABEL_CAP] = { "label_cap", "calls",
	    "labelled _other, or in type _other: too many labels" },
	[KP_LOSS_STALE] = { "stale", "calls",
	    "not measured: they belong to no request of the last 30 s" },
	[KP_LOSS_CROSSED] = { "crossed", "calls",
	    "not measured: another request's token hides which they belong to" },
	[KP_LOSS_BAD_EVENT] = { "bad_event", "events",
	    "not understood" },
	[KP_LOSS_GAP] = { "gap", "batches",
	    "of events missing between two that came" },
	[KP_LOSS_STORE] = { "store", "rows",
	    "not written to the database" },
	[KP_LOSS_UNWRITTEN] = { "unwritten", "requests",
	    "measured, but not written to the database" },
	[KP_LOSS_TREE] = { "tree", "requests",
	    "slow, but without a trace: too many to keep" },
	[KP_LOSS_PAUSE] = { "pause", "events",
	    "of garbage collection or scheduling: the other end was not seen" },
	[KP_LOSS_PAUSE_CAP] = { "pause_cap", "events",
	    "of garbage collection or scheduling: too many to keep" },
	[KP_LOSS_UNRECEIVED] = { "unreceived", "messages",
	    "not taken from a mailbox by the end of their request" },
	[KP_LOSS_UNPAIRED] = { "unpaired", "messages",
	    "received, but their send was not seen" },
	[KP_LOSS_MAIL_LATE] = { "mail_late", "messages",
	    "sent after their request had closed" },
	[KP_LOSS_MAIL_CAP] = { "mail_cap", "messages",
	    "not followed: too many of one request, or of all" },
	[KP_LOSS_MAIL_GONE] = { "mail_gone", "messages",
	    "lost together with their request" },
	[KP_LOSS_MAIL_CROSSED] = { "mail_crossed", "messages",
	    "not followed: another request's token hides which they belong to" },
	[KP_LOSS_FOREIGN_TOKEN] = { "foreign_token", "requests",
	    "not traced: the process had the application's own trace token" },
	[KP_LOSS_RUNNING] = { "running", "requests",
	    "still running when profiling ended" },
	[KP_LOSS_RUNNING_CALLS] = { "running_calls", "calls",
	    "still running when profiling ended, away from their request" },
	[KP_LOSS_OUTLASTED] = { "outlasted", "calls",
	    "left unfinished: no end was seen long after their request" },
	[KP_LOSS_OUTLASTED_CUT] = { "outlasted_cut", "calls",
	    "left unfinished: tracing stopped, or too many outlasted requests" },
	[KP_LOSS_SAMPLE_CAP] = { "sample_cap", "samples",
	    "of stacks dropped: too many waited for the end of their requests" },
	[KP_LOSS_SAMPLE_GONE] = { "sample_gone", "samples",
	    "of stacks whose request was lost, or had closed before" },
	[KP_LOSS_SAMPLE_UNSENT] = { "sample_unsent", "samples",
	    "of stacks dropped in the target: they could not be sent in time" },
	[KP_LOSS_SAMPLE_CROWD] = { "sample_crowd", "samples",
	    "of stacks not taken: too many processes were at work at a time" },
	[KP_LOSS_SAMPLE_LATE] = { "sample_late", "turns",
	    "of the stack sampler late: the time until then has no samples" },
	[KP_LOSS_STACK_OTHER] = { "stack_other", "samples",
	    "counted under the stack _other: too many different ones" },
	[KP_LOSS_CONNECTING] = { "connecting", "requests",
	    "in flight when their node connected to another: calls may be missing" },
	[KP_LOSS_TWICE] = { "twice", "requests",
	    "inside another one that counts too: their entry was called in itself" },
	[KP_LOSS_TIMED] = { "timed", "requests",
	    "of those passed over: their time and type are known, but no tiers" },
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
