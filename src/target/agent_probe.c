/*
 * agent_probe.c - has a target load the native probe, if it can.
 *
 * The agent runs already, with the relay.  kprofd sends it the native probe's
 * module and the name of the library, which must be on the target's host: on
 * this machine it is our own.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "probe_beam.h"
#include "target/agent_internal.h"
#include "target/probe_file.h"

/* {probe, Beam, Path, MaxBytes} */
static void
ask(struct agent *a)
{
	struct kp_buf b;

	agent_command_begin(a, &b);
	kp_etf_tuple(&b, 4);
	kp_etf_atom(&b, "probe");
	kp_etf_binary(&b, kp_probe_beam, kp_probe_beam_len);
	probe_file_put(&b, a->o.probe_library);
	kp_etf_int(&b, (int64_t)a->o.conf->overload.max_memory / 2);
	agent_command_end(a, &b);
}

void
agent_step_probe(struct agent *a)
{
	a->native = false;
	a->probing = a->o.probe != AGENT_RELAY;
	if (!a->probing) {
		agent_step_check(a);
		return;
	}
	agent_set_step(a, AGENT_CHECKING);
	ask(a);
}

/* {ok, Info} | {error, Why} */
void
agent_answer_probe(struct agent *a, struct kp_term *r)
{
	char text[400], why[1024];
	struct kp_term at = *r;

	a->probing = false;
	kp_term_tuple_n(&at, 2);
	a->native = kp_span_is(kp_term_atom(&at), "ok");
	msg_text(a->native ? r : &at, text, sizeof(text));
	snprintf(why, sizeof(why), "'%s' cannot load '%s': %s", a->o.target,
	    a->o.probe_library, text);
	if (!a->native && a->o.probe == AGENT_NATIVE) {
		agent_lost(a, why);
		return;
	}
	a->ops->on_probe(a->owner, a->native, a->native ? NULL : why);
	agent_step_check(a);
}
