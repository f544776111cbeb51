/*
 * decode.h - decodes the messages of a tracer in a target.  Pure.
 *
 * An element of its lists is a trace message of the VM, without the parts that
 * could be large:
 *   {trace_ts, Pid, call, {M,F,A}, Caller, Ts}	 Caller: {M,F,A} | undefined
 *   {trace_ts, Pid, call, {M,F,A}, {Caller, Arguments}, Ts}	see decode.c
 *   {trace_ts, Pid, return_to, {M,F,A} | undefined, Ts}
 *   {trace_ts, Pid, in | out, {M,F,A} | 0, Ts}
 *   {trace_ts, Pid, gc_start | gc_end, 0, Ts}
 *   {trace_ts, Pid, spawn, Child, {M,F,A}, Ts}
 *   {trace_ts, Pid, exit, 0, Ts}
 *   {trace_ts, Pid, request, Number, Ts}
 *   {trace_ts, Pid, send, {Number, Serial}, Ts}
 *   {trace_ts, Pid, 'receive', {Number, Serial, From}, Ts}
 * Or all of them are binaries of the native probe.
 */
#ifndef KPROFD_CALLS_DECODE_H
#define KPROFD_CALLS_DECODE_H

#include "calls/call_trace.h"
#include "kprofd/native.h"

struct kp_calls_decoder;

/*
 * names stays the caller's; node: the target's number there; args: the most
 * bytes of text for a call's arguments, up to KP_CALLS_ARGS_MAX.  NULL when out
 * of memory.
 */
struct kp_calls_decoder *kp_calls_decoder_new(struct kp_call_names *names,
    uint32_t node, uint32_t args);
void kp_calls_decoder_free(struct kp_calls_decoder *d);

/*
 * Decodes one term.  KP_OK: into *ev, whose arguments are valid until the next
 * one; KP_ENOENT: it is not such an element, or has a name that cannot be kept;
 * KP_ENOMEM; else the error that sticks in r.
 */
enum kp_err kp_calls_decode(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev);

/*
 * Decodes the next event of a batch of the native probe's chunks
 * (kprofd/native.h).  KP_OK, KP_ENOENT and KP_ENOMEM as above; KP_END after the
 * last; KP_EFORMAT if the batch is damaged.
 */
enum kp_err kp_calls_next(struct kp_calls_decoder *d, struct kp_batch *b,
    struct kp_call_event *ev);

#endif
