/*
 * pprof.h - writes a profile for pprof: Profile of profile.proto, compressed with
 * gzip; or the same for OpenTelemetry, ExportProfilesServiceRequest, with a profile for
 * each type of value.  Functions, lines, texts and labels are each there once.  Pure.
 *
 * Source: github.com/google/pprof, proto/profile.proto and proto/README.md;
 * opentelemetry-proto 1.9, profiles/v1development, which is alpha.
 */
#ifndef KPROFD_TEXT_PPROF_H
#define KPROFD_TEXT_PPROF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "kprofd/buf.h"
#include "kprofd/clock.h"

struct pprof_type {
	const char *type, *unit;
};
/* Of sampled stacks; running: of processes that work (KP_STACK_WORKING). */
#define PPROF_STACK_TYPES { "samples", "count" }, { "wall", "nanoseconds" }, \
	{ "running", "nanoseconds" }
struct pprof_label {
	const char *key, *value;	/* NULL or "": it has none */
};

#define PPROF_TYPES_MAX 4

/* What OpenTelemetry wants to know of a profile. */
struct pprof_otlp {
	const struct kp_buf *resource;	/* a Resource */
	uint8_t id[16];			/* of the first profile; the others' come next */
};

/* Fields are private. */
struct pprof {
	struct kp_buf b, part, text;	/* all of it, or the dictionary; a message in it; a text */
	struct kp_buf samples[PPROF_TYPES_MAX];	/* of OpenTelemetry, by type */
	struct intern strings, stacks, labels;
	struct map functions, places;
	const struct pprof_type *types;
	size_t ntypes, shown;
	const struct pprof_otlp *otlp;
	const struct pprof_fields *fields;
};

/*
 * shown: the number of the type that is shown unless another is asked for.  types, and
 * otlp, NULL for pprof, are valid until pprof_end().
 */
void pprof_begin(struct pprof *p, const struct pprof_type *types, size_t n,
    size_t shown, const struct pprof_otlp *otlp);
/*
 * Returns the number of a place: a line, 0 if it is not known, of the function whose
 * name has n bytes (fn_name.h).  Its file is the name of its module.
 */
uint64_t pprof_place(struct pprof *p, const char *name, size_t n, uint32_t line);
/*
 * A sample of these places, innermost first, with a value of each type.  For
 * OpenTelemetry no two may have the same places and labels.
 */
void pprof_sample(struct pprof *p, const uint64_t *places, size_t nplaces,
    const int64_t *values, const struct pprof_label *labels, size_t nlabels);
/*
 * Appends the profile to b, and frees everything.  time 0: not known; period: ns that
 * a sample stands for, 0: it is not sampled.
 */
void pprof_end(struct pprof *p, struct kp_buf *b, kp_wall_ns time,
    kp_dur_ns duration, kp_dur_ns period);

#endif
