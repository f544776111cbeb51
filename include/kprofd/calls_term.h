/*
 * calls_term.h - decodes what a tracer in a target sends into events of a full
 * trace.  Pure.
 *
 * An element of its lists is a trace message of the VM, without what could be
 * large:
 *   {trace_ts, Pid, call, {M,F,A}, Caller, Ts}	 Caller: {M,F,A} | undefined
 *   {trace_ts, Pid, call, {M,F,A}, {Caller, Arguments}, Ts}	args.h
 *   {trace_ts, Pid, return_to, {M,F,A} | undefined, Ts}
 *   {trace_ts, Pid, in | out, {M,F,A} | 0, Ts}
 *   {trace_ts, Pid, gc_start | gc_end, 0, Ts}
 *   {trace_ts, Pid, spawn, Child, {M,F,A}, Ts}
 *   {trace_ts, Pid, exit, 0, Ts}
 *   {trace_ts, Pid, request, Number, Ts}
 *   {trace_ts, Pid, send, {Number, Serial}, Ts}
 *   {trace_ts, Pid, 'receive', {Number, Serial, From}, Ts}
 * or, all of them, binaries of the native probe.
 */
#ifndef KPROFD_CALLS_TERM_H
#define KPROFD_CALLS_TERM_H

#include "kprofd/calls.h"
#include "kprofd/native.h"

struct kp_calls_decoder;

/*
 * names stays the caller's; node: whose native probe it may be, of names;
 * args: most bytes of the text that arguments become, up to KP_CALLS_ARGS_MAX.
 * NULL when out of memory.
 */
struct kp_calls_decoder *kp_calls_decoder_new(struct kp_call_names *names,
    uint32_t node, uint32_t args);
void kp_calls_decoder_free(struct kp_calls_decoder *d);

/*
 * Passes one term.  KP_OK: it is *ev, with arguments that stay until the next;
 * KP_ENOENT: a good term, but no such
 * element, or of a name that cannot be kept; KP_ENOMEM; else what sticks in r.
 */
enum kp_err kp_calls_decode(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev);

/*
 * The next event of a batch of the native probe's chunks (kprofd/native.h),
 * which are the node's of one probe.  KP_OK, KP_ENOENT and KP_ENOMEM as above;
 * KP_END after the last; KP_EFORMAT where the batch cannot be followed.
 */
enum kp_err kp_calls_next(struct kp_calls_decoder *d, struct kp_batch *b,
    struct kp_call_event *ev);

#endif
