/*
 * args.h - arguments of a call, as a tracer's match spec describes them, as
 * text in Erlang's syntax.  Pure.
 *
 * What is described is bounded there (erlang/tracer/kprof_tracer_args.erl), whatever the
 * arguments are:
 *   Arguments  {Node, .., Node} or {Node, .., Node, more}
 *   Node       {Term} | {{Term}, false}	small, and whole
 *              {false, {Tuple, List, Map, Binary, Fun, Ref, Integer}}
 *              false			not looked at
 *   Tuple      {Size, Node, ..}		the first ones; or false
 *   List       {Node, Tail} | false
 *   Tail       false			the end
 *              {{Node, Tail}} | {true} | {false}	more, and no list
 *   Map        {Size, Struct | false} | false
 *   Binary     {Bytes, Beginning | false} | false
 *   Fun, Ref, Integer	it is one
 */
#ifndef KPROFD_PROFILE_TRACE_ARGS_H
#define KPROFD_PROFILE_TRACE_ARGS_H

#include "kprofd/calls.h"

/*
 * Appends at most max bytes: cut with "..." where they would be more.  node:
 * whose processes are local.  What is no such term writes something, and sticks
 * in r.
 */
void args_put(struct kp_buf *b, struct kp_term *r, struct kp_span node,
    size_t max);

#endif
