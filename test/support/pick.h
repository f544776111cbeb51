/* pick.h - numbers as if by chance, the same ones for the same seed. */
#ifndef PICK_H
#define PICK_H

#include <stdint.h>

static uint32_t seed = 1;

/* One below n. */
static inline uint32_t
pick(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(seed >> 8) * n >> 24);
}

/* The same of 64 bits, which begins anew with each program. */
static inline uint64_t
rnd(uint64_t below)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

#endif
