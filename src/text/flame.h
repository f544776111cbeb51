/*
 * flame.h - writes stacks for flame graphs: lines of folded stacks, which
 * flamegraph.pl and speedscope read, and speedscope's own JSON.  Pure: into a
 * kp_buf, whose error sticks.
 *
 * Source: speedscope's file-format-schema.json, profiles of type "sampled".
 */
#ifndef KPROFD_TEXT_FLAME_H
#define KPROFD_TEXT_FLAME_H

#include "text/json.h"

/*
 * Replaces the semicolons since `from`, which would separate frames of a folded
 * stack.  Blanks may stay: the number is what follows the last one.
 */
void flame_clean(struct kp_buf *b, size_t from);

/* Call these in this order; those of a frame and of a profile, for each. */
void speedscope_begin(struct json *j, struct kp_buf *b, const char *name);
/* file: "" if there is none */
void speedscope_frame(struct json *j, const char *name, const char *file);
void speedscope_profiles(struct json *j);
/* Then write each sample: an array of numbers of frames, outermost first. */
void speedscope_profile(struct json *j, const char *name, int64_t start,
    int64_t end);
/* Then write each sample's weight, in ns. */
void speedscope_weights(struct json *j);
void speedscope_profile_end(struct json *j);
void speedscope_end(struct json *j);

#endif
