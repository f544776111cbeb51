/*
 * call_args.h - arguments of a call as text in Erlang's syntax, from a tracer's
 * description of them.  Pure.
 *
 * The match spec in the node bounds the description, whatever the arguments are
 * (erlang/tracer/kprof_tracer_args.erl):
 *   Arguments  {Node, .., Node} or {Node, .., Node, more}
 *   Node       {Term} | {{Term}, false}	small, and whole
 *              {false, {Tuple, List, Map, Binary, Fun, Ref, Integer}}
 *              false			not described
 *   Tuple      {Size, Node, ..}		the first ones; or false
 *   List       {Node, Tail} | false
 *   Tail       false			the end
 *              {{Node, Tail}} | {true} | {false}	a cell; more; improper
 *   Map        {Size, Struct | false} | false
 *   Binary     {Bytes, Beginning | false} | false
 *   Fun, Ref, Integer	true: it is one
 */
#ifndef KPROFD_CALLS_CALL_ARGS_H
#define KPROFD_CALLS_CALL_ARGS_H

#include "calls/call_trace.h"

/*
 * Appends at most max bytes; longer texts are cut with "...".  Pids of `node` are
 * written as local ones.  An invalid term appends something, and its error sticks
 * in r.
 */
void args_put(struct kp_buf *b, struct kp_term *r, struct kp_span node,
    size_t max);

#endif
