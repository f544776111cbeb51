/*
 * pprof.c - writes protobuf messages.  A message may have its fields in any order, so those
 * of the profile are written as they come; only a sample's own bytes are put together
 * first, for their length.  What has a number in pprof has the same one as its index in
 * OpenTelemetry's dictionary, whose first of each kind is empty.
 */
#include "base/gzip.h"
#include "kprofd/fn_name.h"
#include "text/pprof.h"
#include "text/text.h"

#define PROFILE_BYTES_MAX (1u << 30)
#define TEXT_BYTES_MAX (1u << 16)

/* Numbers of fields: of Profile in profile.proto, or of ProfilesDictionary. */
struct pprof_fields {
	unsigned location, function, string;
	unsigned id, name, file;	/* in a function; id also in a location */
	unsigned line;			/* in a location */
};

static const struct pprof_fields pprof_fields = { .location = 4, .function = 5,
	.string = 6, .id = 1, .name = 2, .file = 4, .line = 4 };
static const struct pprof_fields otlp_fields = { .location = 2, .function = 3,
	.string = 5, .name = 1, .file = 3, .line = 3 };

/* The rest of profile.proto's. */
enum { SAMPLE_TYPE = 1, SAMPLE = 2, TIME_NANOS = 9, DURATION_NANOS = 10,
	PERIOD_TYPE = 11, PERIOD = 12, DEFAULT_SAMPLE_TYPE = 14 };
/* And of OpenTelemetry's dictionary and Profile. */
enum { OTLP_MAPPING = 1, OTLP_LINK = 4, OTLP_LABEL = 6, OTLP_STACK = 7 };
enum { OTLP_TYPE = 1, OTLP_SAMPLE = 2, OTLP_TIME = 3, OTLP_DURATION = 4,
	OTLP_PERIOD_TYPE = 5, OTLP_PERIOD = 6, OTLP_ID = 7 };

#define LABELS_MAX 8

static void
fail(struct pprof *p, enum kp_err err)
{
	if (p->b.err == KP_OK)
		p->b.err = err;
}

/* What was put together in `part` is a message of this one. */
static void
put_part(struct pprof *p, struct kp_buf *to, unsigned field)
{
	fail(p, p->part.err);
	kp_buf_pb_bytes(to, field, p->part.p, p->part.len);
	kp_buf_reset(&p->part);
}

/* Sets the number of these bytes.  True: they are new, and numbers begin at `first`. */
static bool
is_new_text(struct pprof *p, struct intern *of, const void *text, size_t n,
    uint32_t first, uint32_t *number)
{
	const struct interned *known = intern_get(of, text, n);

	*number = known != NULL ? known->val : first + (uint32_t)of->len;
	if (known == NULL && intern_put(of, text, n, *number) == NULL)
		fail(p, KP_ENOMEM);
	return known == NULL;
}

/* Returns the text's number, after writing it if it is new. */
static uint32_t
text_number(struct pprof *p, const char *text, size_t n)
{
	uint32_t number;

	kp_buf_reset(&p->text);
	text_put_n(&p->text, text, n);
	fail(p, p->text.err);
	if (is_new_text(p, &p->strings, p->text.p, p->text.len, 0, &number))
		kp_buf_pb_bytes(&p->b, p->fields->string, p->text.p, p->text.len);
	return number;
}

static void
put_type(struct pprof *p, struct kp_buf *to, unsigned field, const struct pprof_type *t)
{
	kp_buf_pb_uint(&p->part, 1, text_number(p, t->type, strlen(t->type)));
	kp_buf_pb_uint(&p->part, 2, text_number(p, t->unit, strlen(t->unit)));
	put_part(p, to, field);
}

/* Writes numbers that are one field, into the message that is put together. */
static void
put_packed(struct pprof *p, unsigned field, const uint64_t *v, size_t n)
{
	kp_buf_reset(&p->text);
	for (size_t i = 0; i < n; i++)
		kp_buf_varint(&p->text, v[i]);
	fail(p, p->text.err);
	if (n > 0)
		kp_buf_pb_bytes(&p->part, field, p->text.p, p->text.len);
}

/* Returns the number of a label of OpenTelemetry's. */
static uint32_t
label_number(struct pprof *p, const char *key, const char *value)
{
	uint32_t name = text_number(p, key, strlen(key)), number;
	struct kp_buf b;

	kp_buf_init(&b, TEXT_BYTES_MAX);
	text_put_n(&b, value, strlen(value));
	kp_buf_reset(&p->text);
	kp_buf_pb_bytes(&p->text, 1, b.p, b.len);	/* an AnyValue */
	fail(p, b.err);
	fail(p, p->text.err);
	kp_buf_free(&b);
	kp_buf_pb_uint(&p->part, 1, name);
	kp_buf_pb_bytes(&p->part, 2, p->text.p, p->text.len);
	fail(p, p->part.err);
	if (is_new_text(p, &p->labels, p->part.p, p->part.len, 1, &number))
		put_part(p, &p->b, OTLP_LABEL);
	kp_buf_reset(&p->part);
	return number;
}

/* The first of each kind, which stands for none. */
static void
put_empty(struct pprof *p)
{
	static const unsigned fields[] = { OTLP_MAPPING, OTLP_LABEL, OTLP_STACK };
	static const uint8_t id[16];

	for (size_t i = 0; i < 3; i++)
		kp_buf_pb_bytes(&p->b, fields[i], "", 0);
	kp_buf_pb_bytes(&p->b, p->fields->location, "", 0);
	kp_buf_pb_bytes(&p->b, p->fields->function, "", 0);
	kp_buf_pb_bytes(&p->part, 1, id, 16);
	kp_buf_pb_bytes(&p->part, 2, id, 8);
	put_part(p, &p->b, OTLP_LINK);
	/* the label of all places: 1 */
	label_number(p, "profile.frame.type", "beam");
}

void
pprof_begin(struct pprof *p, const struct pprof_type *types, size_t n,
    size_t shown, const struct pprof_otlp *otlp)
{
	*p = (struct pprof){ .types = types, .ntypes = n, .shown = shown, .otlp = otlp,
		.fields = otlp != NULL ? &otlp_fields : &pprof_fields };
	kp_buf_init(&p->b, PROFILE_BYTES_MAX);
	kp_buf_init(&p->part, PROFILE_BYTES_MAX);
	kp_buf_init(&p->text, TEXT_BYTES_MAX);
	for (size_t i = 0; i < n; i++)
		kp_buf_init(&p->samples[i], PROFILE_BYTES_MAX);
	/* the first text has to be this */
	text_number(p, "", 0);
	if (otlp != NULL) {
		put_empty(p);
		return;
	}
	for (size_t i = 0; i < n; i++)
		put_type(p, &p->b, SAMPLE_TYPE, &types[i]);
	kp_buf_pb_uint(&p->b, DEFAULT_SAMPLE_TYPE, text_number(p,
	    types[shown].type, strlen(types[shown].type)));
}

/* Sets the number of what has this key.  True: it is new. */
static bool
is_new(struct pprof *p, struct map *of, uint64_t key, uint64_t *number)
{
	const uint64_t *known = map_get(of, key);

	*number = known != NULL ? *known : of->len + 1;
	if (known == NULL && !map_put(of, key, *number))
		fail(p, KP_ENOMEM);
	return known == NULL;
}

/* A message of two numbers in the message that is put together. */
static void
put_pair(struct pprof *p, unsigned field, uint64_t first, uint64_t second)
{
	uint8_t bytes[32];
	struct kp_buf b = { .p = bytes, .cap = sizeof(bytes), .max = sizeof(bytes) };

	kp_buf_pb_uint(&b, 1, first);
	kp_buf_pb_uint(&b, 2, second);
	kp_buf_pb_bytes(&p->part, field, b.p, b.len);
}

uint64_t
pprof_place(struct pprof *p, const char *name, size_t n, uint32_t line)
{
	const struct pprof_fields *f = p->fields;
	uint64_t text = text_number(p, name, n), fn, at;
	size_t mod = n;
	const char *file = fn_module(name, &mod);

	if (line >= INT32_MAX)
		line = 0;
	/* a map does not keep 0 */
	if (is_new(p, &p->functions, text + 1, &fn)) {
		if (f->id > 0)
			kp_buf_pb_uint(&p->part, f->id, fn);
		kp_buf_pb_uint(&p->part, f->name, text);
		if (mod < n)
			kp_buf_pb_uint(&p->part, f->file, text_number(p, file, mod));
		put_part(p, &p->b, f->function);
	}
	if (is_new(p, &p->places, fn << 32 | line, &at)) {
		if (f->id > 0)
			kp_buf_pb_uint(&p->part, f->id, at);
		put_pair(p, f->line, fn, line);
		if (p->otlp != NULL)
			put_packed(p, 4, (const uint64_t[]){ 1 }, 1);
		put_part(p, &p->b, f->location);
	}
	return at;
}

/* A sample of OpenTelemetry's has one value, and is of a stack in the dictionary. */
static void
put_otlp_sample(struct pprof *p, const uint64_t *places, size_t nplaces,
    const int64_t *values, const struct pprof_label *labels, size_t nlabels)
{
	uint64_t of[LABELS_MAX], value;
	uint32_t stack = 0;
	size_t n = 0;

	for (size_t i = 0; i < nlabels && n < LABELS_MAX; i++)
		if (labels[i].value != NULL && labels[i].value[0] != '\0')
			of[n++] = label_number(p, labels[i].key, labels[i].value);
	put_packed(p, 1, places, nplaces);
	fail(p, p->part.err);
	if (nplaces > 0 && is_new_text(p, &p->stacks, p->part.p, p->part.len, 1, &stack))
		put_part(p, &p->b, OTLP_STACK);
	kp_buf_reset(&p->part);
	for (size_t i = 0; i < p->ntypes; i++) {
		value = (uint64_t)values[i];
		if (value == 0)
			continue;
		kp_buf_pb_uint(&p->part, 1, stack);
		put_packed(p, 2, of, n);
		put_packed(p, 4, &value, 1);
		put_part(p, &p->samples[i], OTLP_SAMPLE);
	}
}

void
pprof_sample(struct pprof *p, const uint64_t *places, size_t nplaces,
    const int64_t *values, const struct pprof_label *labels, size_t nlabels)
{
	const struct pprof_label *l = labels;

	if (p->otlp != NULL) {
		put_otlp_sample(p, places, nplaces, values, labels, nlabels);
		return;
	}
	for (size_t i = 0; i < nplaces; i++)
		kp_buf_pb_uint(&p->part, 1, places[i]);
	for (size_t i = 0; i < p->ntypes; i++)
		kp_buf_pb_uint(&p->part, 2, (uint64_t)values[i]);
	for (; l < labels + nlabels; l++)
		if (l->value != NULL && l->value[0] != '\0')
			put_pair(p, 3, text_number(p, l->key, strlen(l->key)),
			    text_number(p, l->value, strlen(l->value)));
	put_part(p, &p->b, SAMPLE);
}

static const struct pprof_type period_type = { "wall", "nanoseconds" };

/* Puts the profile of a type together. */
static void
put_otlp_profile(struct pprof *p, struct kp_buf *to, size_t type, kp_wall_ns time,
    kp_dur_ns duration, kp_dur_ns period)
{
	struct kp_buf *b = &p->samples[type];
	uint8_t id[16];

	memcpy(id, p->otlp->id, sizeof(id));
	id[15] = (uint8_t)(id[15] + type);
	put_type(p, b, OTLP_TYPE, &p->types[type]);
	kp_buf_pb_fixed(b, OTLP_TIME, (uint64_t)time);
	kp_buf_pb_uint(b, OTLP_DURATION, (uint64_t)duration);
	put_type(p, b, OTLP_PERIOD_TYPE, &period_type);
	kp_buf_pb_uint(b, OTLP_PERIOD, (uint64_t)period);
	kp_buf_pb_bytes(b, OTLP_ID, id, sizeof(id));
	fail(p, b->err);
	kp_buf_pb_bytes(to, 2, b->p, b->len);
}

/* The request: one resource, with one scope, and the dictionary. */
static void
put_otlp(struct pprof *p, struct kp_buf *b, kp_wall_ns time, kp_dur_ns duration,
    kp_dur_ns period)
{
	struct kp_buf scope, resource;

	kp_buf_init(&scope, PROFILE_BYTES_MAX);
	kp_buf_init(&resource, PROFILE_BYTES_MAX);
	kp_buf_pb_bytes(&p->part, 1, "kprofd", 6);
	kp_buf_pb_bytes(&p->part, 2, KP_VERSION, strlen(KP_VERSION));
	put_part(p, &scope, 1);
	/* viewers show the first one */
	put_otlp_profile(p, &scope, p->shown, time, duration, period);
	for (size_t i = 0; i < p->ntypes; i++)
		if (i != p->shown)
			put_otlp_profile(p, &scope, i, time, duration, period);
	kp_buf_pb_bytes(&resource, 1, p->otlp->resource->p, p->otlp->resource->len);
	kp_buf_pb_bytes(&resource, 2, scope.p, scope.len);
	fail(p, scope.err);
	fail(p, resource.err);
	kp_buf_pb_bytes(b, 1, resource.p, resource.len);
	kp_buf_pb_bytes(b, 2, p->b.p, p->b.len);
	kp_buf_free(&scope);
	kp_buf_free(&resource);
}

static void
put_period(struct pprof *p, kp_wall_ns time, kp_dur_ns duration, kp_dur_ns period)
{
	if (time > 0)
		kp_buf_pb_uint(&p->b, TIME_NANOS, (uint64_t)time);
	if (duration > 0)
		kp_buf_pb_uint(&p->b, DURATION_NANOS, (uint64_t)duration);
	if (period > 0) {
		put_type(p, &p->b, PERIOD_TYPE, &period_type);
		kp_buf_pb_uint(&p->b, PERIOD, (uint64_t)period);
	}
}

void
pprof_end(struct pprof *p, struct kp_buf *b, kp_wall_ns time,
    kp_dur_ns duration, kp_dur_ns period)
{
	if (p->otlp != NULL) {
		put_otlp(p, b, time, duration, period);
	} else {
		put_period(p, time, duration, period);
		if (p->b.err == KP_OK)
			gzip_put(b, p->b.p, p->b.len);
	}
	if (b->err == KP_OK)
		b->err = p->b.err;
	kp_buf_free(&p->b);
	kp_buf_free(&p->part);
	kp_buf_free(&p->text);
	for (size_t i = 0; i < p->ntypes; i++)
		kp_buf_free(&p->samples[i]);
	intern_free(&p->strings);
	intern_free(&p->stacks);
	intern_free(&p->labels);
	map_free(&p->functions);
	map_free(&p->places);
}
