/* flame.c - writes the parts of folded stacks and of speedscope's JSON. */
#include "flame.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

void
flame_clean(struct kp_buf *b, size_t from)
{
	for (; b->err == KP_OK && from < b->len; from++)
		if (b->p[from] == ';')
			b->p[from] = ':';
}

void
speedscope_begin(struct json *j, struct kp_buf *b, const char *name)
{
	json_begin(j, b);
	json_object(j, NULL);
	json_string(j, "$schema", SCHEMA);
	json_string(j, "name", name);
	json_string(j, "exporter", "kprof");
	json_object(j, "shared");
	json_array(j, "frames");
}

void
speedscope_frame(struct json *j, const char *name, const char *file)
{
	json_object(j, NULL);
	json_string(j, "name", name);
	if (file[0] != '\0')
		json_string(j, "file", file);
	json_end(j);
}

void
speedscope_profiles(struct json *j)
{
	json_end(j);
	json_end(j);
	json_array(j, "profiles");
}

void
speedscope_profile(struct json *j, const char *name, int64_t start,
    int64_t end)
{
	json_object(j, NULL);
	json_string(j, "type", "sampled");
	json_string(j, "name", name);
	json_string(j, "unit", "nanoseconds");
	json_int(j, "startValue", start);
	json_int(j, "endValue", end);
	json_array(j, "samples");
}

void
speedscope_weights(struct json *j)
{
	json_end(j);
	json_array(j, "weights");
}

void
speedscope_profile_end(struct json *j)
{
	json_end(j);
	json_end(j);
}

void
speedscope_end(struct json *j)
{
	json_end(j);
	json_end(j);
	kp_buf_str(j->b, "\n");
}
