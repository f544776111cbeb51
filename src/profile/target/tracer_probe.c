/*
 * tracer_probe.c - encodes which probe to use, and where its module and library
 * are.
 *
 * The native probe's module travels with us; its library is the node's, which
 * on this machine is our own.
 */
#include "calls_probe_beam.h"
#include "kprofd/etf.h"
#include "target/probe_file.h"
#include "profile/target/tracer_probe.h"

void
tracer_put_probe(struct kp_buf *b, const struct tracer_opts *o)
{
	static const char *const names[] = { "relay", "native", "auto" };

	kp_etf_atom(b, "probe");
	kp_etf_atom(b, names[o->probe]);
	kp_etf_atom(b, "probe_beam");
	kp_etf_binary(b, kp_calls_probe_beam, kp_calls_probe_beam_len);
	kp_etf_atom(b, "probe_library");
	probe_file_put(b, o->probe_library != NULL ? o->probe_library : "");
}
