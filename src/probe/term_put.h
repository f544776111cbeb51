/*
 * term_put.h - a term of the VM as bytes of the external format.
 *
 * The terms that match specs build are written without an allocation: atoms in
 * Latin-1, integers of 64 bits, floats, binaries, lists and tuples of them.
 * Anything else is encoded by the VM, which allocates.
 */
#ifndef KPROFD_PROBE_TERM_PUT_H
#define KPROFD_PROBE_TERM_PUT_H

#include <erl_nif.h>
#include <stdint.h>

/*
 * Writes the term without a version byte; returns the number of bytes, or 0 if
 * more than cap would be needed.
 */
uint32_t term_put(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *p, uint32_t cap);
/* The same for a tuple of n plain terms. */
uint32_t term_put_tuple(ErlNifEnv *env, const ERL_NIF_TERM v[], unsigned n,
    uint8_t *p, uint32_t cap);

#endif
