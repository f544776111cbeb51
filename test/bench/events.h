/*
 * events.h - trace events as a target with five tiers sends them, made by
 * benchmarks with etf.h.  A request's calls come from a gen_server.
 */
#ifndef BENCH_EVENTS_H
#define BENCH_EVENTS_H

#include "kprofd/clock.h"
#include "kprofd/etf.h"

/* Whose events they are; the bench may change it. */
static const char *const NODES[] = {
	"shop@web-1.example.com", "shop@web-2.example.com",
	"shop@web-3.example.com", "shop@web-4.example.com",
	"shop@web-5.example.com", "shop@web-6.example.com",
	"shop@web-7.example.com", "shop@web-8.example.com",
	"shop@web-9.example.com", "shop@web-10.example.com",
};
static const char *node = "shop@web-1.example.com";

struct fn {
	const char *mod, *fun;
	int arity;
};

/* The entry first. */
static const struct fn fns[] = {
	{ "requests", "handle_request", 2 },
	{ "network_server", "parse_request", 1 },
	{ "formatter", "format_response", 1 },
	{ "db", "network_request", 1 },
	{ "accounting", "incr_reqs", 1 },
};
static const struct fn server = { "gen_server", "try_handle_call", 4 };

/* Every event is written at this time of the target; the bench moves it. */
static kp_target_ns now = INT64_C(-576460751742563646);

static inline void
put_mfa(struct kp_buf *b, const struct fn *f)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, f->mod);
	kp_etf_atom(b, f->fun);
	kp_etf_int(b, f->arity);
}

static inline void
put_token(struct kp_buf *b, uint64_t label, uint32_t from)
{
	kp_etf_tuple(b, 5);
	kp_etf_int(b, 1);
	kp_etf_int(b, (int64_t)(label | UINT64_C(0x2a5000000000000)));
	kp_etf_int(b, 1000);
	kp_etf_pid(b, node, from, 0, 1700000000);
	kp_etf_int(b, 999);
}

static inline void
event_head(struct kp_buf *b, uint32_t arity, uint32_t pid, const char *kind)
{
	kp_etf_tuple(b, arity);
	kp_etf_atom(b, "trace_ts");
	kp_etf_pid(b, node, pid, 0, 1700000000);
	kp_etf_atom(b, kind);
}

static inline void
put_entry(struct kp_buf *b, const char *identity, uint64_t label, uint32_t pid)
{
	event_head(b, 6, pid, "call");
	put_mfa(b, &fns[0]);
	kp_etf_tuple(b, 7);
	kp_etf_atom(b, identity);
	put_mfa(b, &server);
	kp_etf_int(b, 1);
	put_token(b, label, pid);
	kp_etf_bool(b, true);
	kp_etf_nil(b);
	kp_etf_nil(b);
	kp_etf_int(b, now);
}

static inline void
put_call(struct kp_buf *b, const struct fn *f, const struct fn *caller,
    uint64_t label, uint32_t pid, uint32_t from)
{
	event_head(b, 6, pid, "call");
	put_mfa(b, f);
	kp_etf_tuple(b, 3);
	kp_etf_nil(b);
	put_token(b, label, from);
	put_mfa(b, caller);
	kp_etf_int(b, now);
}

static inline void
put_return(struct kp_buf *b, const struct fn *to, uint32_t pid)
{
	event_head(b, 5, pid, "return_to");
	put_mfa(b, to);
	kp_etf_int(b, now);
}

#endif
