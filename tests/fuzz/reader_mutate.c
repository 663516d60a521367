/* reader_mutate.c - mutates words of texts, and fields of messages. */
#include "tests/fuzz/reader_mutate.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "tests/oracles/random_graph.h"

typedef struct span {
    size_t from, to;
} span;

/* The output; bytes beyond its size are dropped. */
typedef struct writer {
    uint8_t *out;
    size_t n, most;
} writer;

static void put(writer *w, const void *bytes, size_t n)
{
    if (n > w->most - w->n) n = w->most - w->n;
    if (n) memcpy(w->out + w->n, bytes, n);
    w->n += n;
}

/* ---- texts ---- */

static bool is_of_word(uint8_t c)
{
    return isalnum(c) || strchr("_.+-", c);
}

/* Returns a random word; empty after the last one. */
static span pick(const uint8_t *data, size_t n, random_source *random)
{
    span s = {(size_t)random_below(random, (int)n), 0};
    while (s.from < n && !is_of_word(data[s.from])) s.from++;
    while (s.from && s.from <= n && is_of_word(data[s.from - 1])) s.from--;
    for (s.to = s.from; s.to < n && is_of_word(data[s.to]); s.to++) continue;
    return s;
}

size_t reader_mutate_text(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed)
{
    static const char *const odd[] = {"0",
                                      "-1",
                                      "1",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "1e308",
                                      "1e-320",
                                      "4611686018427387904",
                                      "2147483648",
                                      "0.5",
                                      "null",
                                      "true",
                                      "[]",
                                      "{}",
                                      "\"\"",
                                      "nan",
                                      "\\u0000",
                                      "\xff"};
    random_source random = {seed};
    writer w = {out, 0, most};
    if (!n) return 0;
    const span a = pick(data, n, &random), b = pick(data, n, &random);
    const span both = {a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
    switch (random_below(&random, 6)) {
    case 0:
        put(&w, data, a.from);
        put(&w, data + a.to, n - a.to);
        return w.n;
    case 1: /* repeats the bytes between the two words */
        put(&w, data, both.to);
        put(&w, data + both.from, n - both.from);
        return w.n;
    case 2: /* removes them */
        put(&w, data, both.from);
        put(&w, data + both.to, n - both.to);
        return w.n;
    case 3: {
        put(&w, data, n);
        if (w.n) out[random_below(&random, (int)w.n)] = (uint8_t)random_below(&random, 256);
        return w.n;
    }
    case 4:
        put(&w, data, a.from);
        put(&w, data + b.from, b.to - b.from);
        put(&w, data + a.to, n - a.to);
        return w.n;
    default: {
        const char *text = odd[random_below(&random, sizeof odd / sizeof *odd)];
        put(&w, data, a.from);
        put(&w, text, strlen(text));
        put(&w, data + a.to, n - a.to);
        return w.n;
    }
    }
}

/* ---- messages ---- */

typedef struct field {
    size_t from, payload, to; /* key; payload, after its length if it has one; end */
    int wire;
} field;

static bool read_number(const uint8_t *data, size_t n, size_t *at, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; *at < n && shift < 64; shift += 7) {
        *value |= (uint64_t)(data[*at] & 127) << shift;
        if (!(data[(*at)++] & 128)) return true;
    }
    return false;
}

static void put_number(writer *w, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        put(w, &byte, 1);
    } while (value >>= 7);
}

static bool read_field(const uint8_t *data, size_t n, size_t at, field *f)
{
    uint64_t key, value;
    *f = (field){.from = at};
    if (!read_number(data, n, &at, &key) || !(key >> 3)) return false;
    f->wire = (int)(key & 7);
    f->payload = at;
    if (f->wire == 0 && !read_number(data, n, &at, &value)) return false;
    if (f->wire == 2) {
        if (!read_number(data, n, &at, &value) || value > n - at) return false;
        f->payload = at;
        at += value;
    } else if (f->wire == 1 || f->wire == 5) {
        if (n - at < 8) return false;
        at += f->wire == 1 ? 8 : 4;
    } else if (f->wire) {
        return false;
    }
    f->to = at;
    return true;
}

/* Picks a random field of a message; false: the bytes are no message. */
static bool pick_field(const uint8_t *data, size_t n, random_source *random, field *out)
{
    field f;
    int seen = 0;
    for (size_t at = 0; at < n; at = f.to) {
        if (!read_field(data, n, at, &f)) return false;
        if (!random_below(random, ++seen)) *out = f;
    }
    return seen > 0;
}

static void change_message(const uint8_t *data, size_t n, writer *w, random_source *random);

/* Writes a changed payload of a field, with its new length if it has one. */
static void change_payload(const uint8_t *data, const field *f, writer *w, random_source *random)
{
    static const uint64_t odd[] = {0, 1, 2, 3, 7, 127, 16, UINT64_MAX, INT64_MAX, UINT64_C(1) << 62, INT32_MAX, 1000};
    uint8_t changed[1 << 16];
    writer inner = {changed, 0, sizeof changed};
    field below;
    const size_t n = f->to - f->payload;
    if (f->wire == 0) {
        put_number(w, odd[random_below(random, sizeof odd / sizeof *odd)]);
        return;
    }
    if (f->wire == 2 && pick_field(data + f->payload, n, random, &below) && random_below(random, 8))
        change_message(data + f->payload, n, &inner, random);
    else if (f->wire == 2)
        inner.n = reader_mutate_text(data + f->payload, n, changed, sizeof changed, (unsigned)random_next(random));
    else
        for (size_t k = 0; k < n; k++) changed[inner.n++] = (uint8_t)random_below(random, 256);
    if (f->wire == 2) put_number(w, inner.n);
    put(w, changed, inner.n);
}

static void change_message(const uint8_t *data, size_t n, writer *w, random_source *random)
{
    field f, g;
    if (!pick_field(data, n, random, &f) || !pick_field(data, n, random, &g)) {
        w->n += reader_mutate_text(data, n, w->out + w->n, w->most - w->n, (unsigned)random_next(random));
        return;
    }
    const int what = random_below(random, 12);
    put(w, data, f.from);
    if (what == 1) put(w, data + f.from, f.to - f.from);              /* repeats the field */
    if (what == 1 || what == 2) put(w, data + g.from, g.to - g.from); /* another field, in addition or instead */
    if (what > 2) {
        uint64_t key;
        size_t at = f.from;
        if (read_number(data, n, &at, &key)) put_number(w, what == 3 ? key + 8 : key);
        change_payload(data, &f, w, random);
    }
    put(w, data + f.to, n - f.to);
}

size_t reader_mutate_message(const uint8_t *data, size_t n, uint8_t *out, size_t most, unsigned seed)
{
    random_source random = {seed};
    writer w = {out, 0, most};
    change_message(data, n, &w, &random);
    return w.n;
}
