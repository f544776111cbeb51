/*
 * agent_probe.c - has a target load the native probe, if it can.
 *
 * The agent runs already, with the relay.  kprofd sends it the native probe's
 * module and the name of the library, which must be on the target's host: on
 * this machine it is our own.  Where the target cannot load that, and the user
 * lets us, the library itself is sent, once the agent has said that it takes
 * one of this kind (kprof_agent_library.erl).
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "probe_beam.h"
#include "agent/agent_internal.h"
#include "agent/probe_file.h"

/* {probe, Beam, Library, MaxBytes}; the caller writes Library, and ends it. */
static void
probe_begin(struct agent *a, struct kp_buf *b)
{
	agent_command_begin(a, b);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "probe");
	kp_etf_binary(b, kp_probe_beam, kp_probe_beam_len);
}

static void
probe_end(struct agent *a, struct kp_buf *b)
{
	kp_etf_int(b, (int64_t)a->o.conf->overload.max_memory / 2);
	agent_command_end(a, b);
}

static void
ask_file(struct agent *a)
{
	struct kp_buf b;

	a->probing = PROBE_FILE;
	probe_begin(a, &b);
	probe_file_put(&b, a->o.probe_library);
	probe_end(a, &b);
}

void
agent_step_probe(struct agent *a)
{
	a->native = false;
	a->probing = PROBE_NONE;
	a->probe_why[0] = '\0';
	if (a->o.probe == AGENT_RELAY) {
		agent_step_check(a);
		return;
	}
	agent_set_step(a, AGENT_CHECKING);
	ask_file(a);
}

/* Appends to the reasons. */
static void
add_why(struct agent *a, const char *what, const char *text)
{
	size_t n = strlen(a->probe_why);

	snprintf(a->probe_why + n, sizeof(a->probe_why) - n, "%s%s", what,
	    text);
}

/* It is known which probe is used. */
static void
decided(struct agent *a, bool native)
{
	const char *why = a->probe_why;

	a->probing = PROBE_NONE;
	a->native = native;
	if (!native)
		add_why(a, " (-probe-library says where the target has the "
		    "library", a->o.probe_send == NULL ?
		    ", -probe-send sends it)" : ")");
	if (!native && a->o.probe == AGENT_NATIVE) {
		agent_lost(a, why);
		return;
	}
	a->ops->on_probe(a->owner, native, why[0] == '\0' ? NULL : why);
	agent_step_check(a);
}

/* The library, and what it is built for; false: it was decided without it. */
static bool
library(struct agent *a, struct kp_buf *bytes, struct probe_kind *kind)
{
	char text[300];

	kp_buf_init(bytes, PROBE_FILE_MAX);
	if (probe_file_read(bytes, kind, a->o.probe_send, text, sizeof(text)))
		return true;
	kp_buf_free(bytes);
	add_why(a, "; nor can kprofd send '", a->o.probe_send);
	add_why(a, "': ", text);
	decided(a, false);
	return false;
}

/* {accepts, Machine, Libc} */
static void
ask_accepts(struct agent *a)
{
	struct probe_kind kind;
	struct kp_buf b;

	if (!library(a, &b, &kind))
		return;
	kp_buf_free(&b);
	a->probing = PROBE_ACCEPTS;
	agent_set_step(a, AGENT_CHECKING);
	agent_command_begin(a, &b);
	kp_etf_tuple(&b, 3);
	kp_etf_atom(&b, "accepts");
	kp_etf_binary(&b, kind.machine, strlen(kind.machine));
	kp_etf_binary(&b, kind.libc, strlen(kind.libc));
	agent_command_end(a, &b);
}

/* Library is {sent, Bytes}. */
static void
send_library(struct agent *a)
{
	struct probe_kind kind;
	struct kp_buf bytes, b;

	if (!library(a, &bytes, &kind))
		return;
	a->probing = PROBE_SENT;
	agent_set_step(a, AGENT_CHECKING);
	probe_begin(a, &b);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "sent");
	kp_etf_binary(&b, bytes.p, bytes.len);
	probe_end(a, &b);
	kp_buf_free(&bytes);
}

/* Text without what is around it; a long one has lost its end. */
static bool
unwrap(char *text, const char *before, const char *after)
{
	size_t len = strlen(text), b = strlen(before), e = strlen(after);

	if (len < b + e || strncmp(text, before, b) != 0)
		return false;
	len -= b;
	memmove(text, text + b, len + 1);
	if (strcmp(text + len - e, after) == 0)
		text[len - e] = '\0';
	return true;
}

/* The agent's <<"one">>, or the {load_failed,"one"} of the VM, as text. */
static void
reason(struct kp_term *r, char *text, size_t n)
{
	msg_text(r, text, n);
	if (!unwrap(text, "<<\"", "\">>"))
		unwrap(text, "{load_failed,\"", "\"}");
}

/* ok or {ok, Info}: true; else the reason, of {error, Why}. */
static bool
answered_ok(struct kp_term *r, char *text, size_t n)
{
	struct kp_term at = *r;

	text[0] = '\0';
	if (kp_term_peek(&at) == KP_TERM_TUPLE)
		kp_term_tuple(&at);
	if (kp_span_is(kp_term_atom(&at), "ok"))
		return true;
	reason(at.err == KP_OK ? &at : r, text, n);
	return false;
}

void
agent_answer_probe(struct agent *a, struct kp_term *r)
{
	enum probe_step step = a->probing;
	char text[600];
	bool ok = answered_ok(r, text, sizeof(text));

	if (ok && step == PROBE_ACCEPTS) {
		send_library(a);
	} else if (ok) {
		decided(a, true);
	} else if (step == PROBE_FILE) {
		snprintf(a->probe_why, sizeof(a->probe_why), "'%s' cannot load "
		    "'%s': %s", a->o.target, a->o.probe_library, text);
		if (a->o.probe_send != NULL)
			ask_accepts(a);
		else
			decided(a, false);
	} else {
		add_why(a, step == PROBE_ACCEPTS ? "; nor is one sent: " :
		    "; nor the one that was sent: ", text);
		decided(a, false);
	}
}
