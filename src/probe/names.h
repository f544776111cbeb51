/*
 * names.h - the slots that stand for functions and identities in records.
 *
 * A cache of fixed size, like a processor's: four slots for each hash.  A name
 * that is not in it takes over one of them, in turn, and is defined again.
 * Keys are compared as a whole; the key of a long name is its hash and length.
 */
#ifndef KPROFD_PROBE_NAMES_H
#define KPROFD_PROBE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/native_record.h"

#define NAMES_WAYS 4

/* All zero: no key. */
struct name_key {
	uint64_t a, b, c;
};

struct names {
	struct name_key key[KP_NATIVE_SLOTS];
	uint8_t turn[KP_NATIVE_SLOTS / NAMES_WAYS];
};

/*
 * Returns the key's slot, 1 to KP_NATIVE_SLOTS; *fresh: it has to be defined.
 * A fresh slot is never `keep` (0: none), because a record with two names needs
 * the meaning of the first until it is written.
 */
uint16_t names_slot(struct names *n, const struct name_key *key, uint16_t keep,
    bool *fresh);
/* Forgets a slot that could not be defined. */
void names_forget(struct names *n, uint16_t slot);
/* Hashes n bytes; the seed keeps others from finding collisions. */
uint64_t names_hash(const uint8_t *p, uint32_t n, uint64_t seed);

#endif
