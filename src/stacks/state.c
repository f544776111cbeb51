/*
 * state.c - tells what a process waited for.
 *
 * A process that waits shows its receive as the innermost frame, below it the
 * functions of libraries that led there.  Those are in a table: from the
 * innermost frame outwards, as long as frames are in it, they say what is
 * waited for.  ssl:recv/3 calls gen:do_call/4 and waits for a socket all the
 * same, so a frame that waits for a port wins over those inside it.
 */
#include <string.h>

#include "stacks/state.h"

static const struct {
	const char *name;
	enum kp_stack_state state;
} statuses[] = {
	{ "running", KP_STACK_RUNNING },
	{ "exiting", KP_STACK_RUNNING },
	{ "runnable", KP_STACK_RUNNABLE },
	{ "garbage_collecting", KP_STACK_GC },
};

/* fun NULL: all functions of the module. */
static const struct {
	const char *mod, *fun;
	enum kp_stack_state state;
} waits[] = {
	{ "gen", NULL, KP_STACK_CALL },
	{ "gen_server", "call", KP_STACK_CALL },
	{ "gen_server", "multi_call", KP_STACK_CALL },
	{ "gen_server", "receive_response", KP_STACK_CALL },
	{ "gen_server", "wait_response", KP_STACK_CALL },
	{ "gen_statem", "call", KP_STACK_CALL },
	{ "gen_statem", "call_dirty", KP_STACK_CALL },
	{ "gen_statem", "receive_response", KP_STACK_CALL },
	{ "gen_statem", "wait_response", KP_STACK_CALL },
	{ "gen_event", "rpc", KP_STACK_CALL },
	{ "gen_event", "call", KP_STACK_CALL },
	{ "gen_event", "call1", KP_STACK_CALL },
	{ "gen_event", "sync_notify", KP_STACK_CALL },
	{ "erpc", "call", KP_STACK_CALL },
	{ "erpc", "multicall", KP_STACK_CALL },
	{ "erpc", "receive_response", KP_STACK_CALL },
	{ "erpc", "wait_response", KP_STACK_CALL },
	{ "rpc", "call", KP_STACK_CALL },
	{ "rpc", "block_call", KP_STACK_CALL },
	{ "rpc", "multicall", KP_STACK_CALL },
	{ "rpc", "yield", KP_STACK_CALL },
	{ "proc_lib", "sync_start", KP_STACK_CALL },
	{ "proc_lib", "sync_start_link", KP_STACK_CALL },
	{ "proc_lib", "sync_start_monitor", KP_STACK_CALL },
	{ "supervisor", "call", KP_STACK_CALL },
	{ "Elixir.GenServer", "call", KP_STACK_CALL },
	{ "Elixir.Agent", NULL, KP_STACK_CALL },
	{ "Elixir.Task", "await", KP_STACK_CALL },
	{ "Elixir.Task", "await_many", KP_STACK_CALL },
	{ "Elixir.Task", "yield", KP_STACK_CALL },
	{ "Elixir.DBConnection.Holder", "checkout_call", KP_STACK_CALL },
	{ "erlang", "port_call", KP_STACK_PORT },
	{ "erlang", "port_command", KP_STACK_PORT },
	{ "erlang", "port_control", KP_STACK_PORT },
	{ "erts_internal", "port_call", KP_STACK_PORT },
	{ "erts_internal", "port_close", KP_STACK_PORT },
	{ "erts_internal", "port_command", KP_STACK_PORT },
	{ "erts_internal", "port_connect", KP_STACK_PORT },
	{ "erts_internal", "port_control", KP_STACK_PORT },
	{ "file", NULL, KP_STACK_PORT },
	{ "gen_sctp", NULL, KP_STACK_PORT },
	{ "gen_tcp", NULL, KP_STACK_PORT },
	{ "gen_tcp_socket", "call", KP_STACK_PORT },
	{ "gen_tcp_socket", "connect", KP_STACK_PORT },
	{ "gen_tcp_socket", "recv", KP_STACK_PORT },
	{ "gen_tcp_socket", "send", KP_STACK_PORT },
	{ "gen_udp", NULL, KP_STACK_PORT },
	{ "gen_udp_socket", "call", KP_STACK_PORT },
	{ "gen_udp_socket", "recv", KP_STACK_PORT },
	{ "inet", NULL, KP_STACK_PORT },
	{ "io", NULL, KP_STACK_PORT },
	{ "os", NULL, KP_STACK_PORT },
	{ "prim_file", NULL, KP_STACK_PORT },
	{ "prim_inet", NULL, KP_STACK_PORT },
	{ "prim_socket", NULL, KP_STACK_PORT },
	{ "ram_file", NULL, KP_STACK_PORT },
	{ "socket", NULL, KP_STACK_PORT },
	{ "ssl", NULL, KP_STACK_PORT },
	{ "ssl_gen_statem", "call", KP_STACK_PORT },
	{ "ssl_gen_statem", "recv", KP_STACK_PORT },
	{ "ssl_gen_statem", "send", KP_STACK_PORT },
	{ "tls_sender", "call", KP_STACK_PORT },
	{ "tls_sender", "send_data", KP_STACK_PORT },
};

/* KP_STACK_WAIT: the function is not in the table. */
static enum kp_stack_state
waits_in(const struct stack_frame_term *f)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (kp_span_is(f->mod, waits[i].mod) &&
		    (waits[i].fun == NULL || kp_span_is(f->fun, waits[i].fun)))
			return waits[i].state;
	return KP_STACK_WAIT;
}

enum kp_stack_state
stack_state(struct kp_span status, const struct stack_frame_term *frames,
    uint32_t n)
{
	enum kp_stack_state found = KP_STACK_WAIT, s;

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (kp_span_is(status, statuses[i].name))
			return statuses[i].state;
	for (uint32_t i = 0; i < n && found != KP_STACK_PORT; i++) {
		s = waits_in(&frames[i]);
		if (s == KP_STACK_WAIT)
			break;
		found = s;
	}
	return found;
}
