/*
 * names.h - the slots that stand for functions and identities in records.
 *
 * A cache of fixed size, like a processor's: four slots for each hash.  A name
 * that is not in it takes over a slot, each in turn, and is defined again.
 * Keys are compared whole; of a long name the key is its hash and its length.
 */
#ifndef KP_PROBE_NAMES_H
#define KP_PROBE_NAMES_H

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
 * The key's slot, 1 to KP_NATIVE_SLOTS; *fresh: it is to be defined.  That one
 * is never `keep`, unless it is the key's already: a record that names two has
 * the first one's meaning till it is written.  0: keeps none.
 */
uint16_t names_slot(struct names *n, const struct name_key *key, uint16_t keep,
    bool *fresh);
/* The slot could not be defined. */
void names_forget(struct names *n, uint16_t slot);
/* 64 bits of any bytes; the seed keeps others from finding collisions. */
uint64_t names_hash(const uint8_t *p, uint32_t n, uint64_t seed);

#endif
