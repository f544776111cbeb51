/*
 * checked.h - for builds that run under a memory checker: sanitizers, or
 * valgrind (PROBE_VALGRIND).  In all other builds it does nothing.
 *
 * Each ring then has memory of its own, whose end is watched.  And memory that
 * the VM has written is declared as defined: the VM's code keeps its stack at
 * the end of a process's heap, with its top in the processor's stack pointer,
 * so valgrind takes a term on that heap for leftovers of a function that has
 * returned.
 */
#ifndef KPROFD_PROBE_CHECKED_H
#define KPROFD_PROBE_CHECKED_H

#if defined(__SANITIZE_ADDRESS__) || defined(PROBE_VALGRIND)
#define PROBE_PLAIN 1
#else
#define PROBE_PLAIN 0
#endif

#ifdef PROBE_VALGRIND
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_DEFINED(p, n) ((void)(p), (void)(n))
#endif

#include <erl_nif.h>
#include <stdbool.h>

/* Declares n bytes that the VM has written as defined. */
static inline void
vm_wrote(const void *p, size_t n)
{
	VALGRIND_MAKE_MEM_DEFINED(p, n);
}

/* Like enif_get_tuple() and so on; their results are declared as defined. */
static inline bool
vm_tuple(ErlNifEnv *env, ERL_NIF_TERM term, int *arity,
    const ERL_NIF_TERM **v)
{
	int is = enif_get_tuple(env, term, arity, v);

	vm_wrote(&is, sizeof(is));
	if (!is)
		return false;
	vm_wrote(arity, sizeof(*arity));
	vm_wrote(*v, (size_t)*arity * sizeof(**v));
	return true;
}

static inline bool
vm_map_value(ErlNifEnv *env, ERL_NIF_TERM map, ERL_NIF_TERM key,
    ERL_NIF_TERM *value)
{
	int is = enif_get_map_value(env, map, key, value);

	vm_wrote(&is, sizeof(is));
	vm_wrote(value, sizeof(*value));
	return is != 0;
}

static inline bool
vm_list_cell(ErlNifEnv *env, ERL_NIF_TERM list, ERL_NIF_TERM *head,
    ERL_NIF_TERM *tail)
{
	int is = enif_get_list_cell(env, list, head, tail);

	vm_wrote(head, sizeof(*head));
	vm_wrote(tail, sizeof(*tail));
	return is != 0;
}

static inline bool
vm_binary(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifBinary *b)
{
	int is = enif_inspect_binary(env, term, b);

	vm_wrote(&is, sizeof(is));
	if (!is)
		return false;
	vm_wrote(b, sizeof(*b));
	vm_wrote(b->data, b->size);
	return true;
}

#endif
