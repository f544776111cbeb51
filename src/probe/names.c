/*
 * names.c - looks a key up among the four slots of its hash, and gives a new
 * key the slot whose turn it is.
 */
#include <string.h>

#include "probe/names.h"

#define SETS (KP_NATIVE_SLOTS / NAMES_WAYS)
#define MIX UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t
mix(uint64_t h)
{
	h *= MIX;
	return h ^ h >> 32;
}

static inline bool
key_is(const struct name_key *x, const struct name_key *y)
{
	return x->a == y->a && x->b == y->b && x->c == y->c;
}

uint16_t
names_slot(struct names *n, const struct name_key *key, uint16_t keep,
    bool *fresh)
{
	uint64_t h = mix(key->a ^ mix(key->b ^ mix(key->c)));
	unsigned set = (unsigned)(h % SETS), at = set * NAMES_WAYS, way;

	*fresh = false;
	for (way = 0; way < NAMES_WAYS; way++)
		if (key_is(&n->key[at + way], key))
			return (uint16_t)(at + way + 1);
	*fresh = true;
	way = n->turn[set]++ % NAMES_WAYS;
	if (at + way + 1 == keep)
		way = n->turn[set]++ % NAMES_WAYS;
	n->key[at + way] = *key;
	return (uint16_t)(at + way + 1);
}

void
names_forget(struct names *n, uint16_t slot)
{
	n->key[slot - 1] = (struct name_key){ 0 };
}

/* Combines both halves of the product, so that each bit of a factor counts. */
static inline uint64_t
fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Without the seed neither factor of any step is known. */
uint64_t
names_hash(const uint8_t *p, uint32_t n, uint64_t seed)
{
	uint64_t h = mix(seed) ^ n, key = seed ^ MIX, word;

	for (; n >= sizeof(word); n -= 8, p += 8) {
		memcpy(&word, p, sizeof(word));
		h = fold(h, word ^ key);
	}
	word = 0;
	memcpy(&word, p, n);
	return mix(fold(h, word ^ key));
}
