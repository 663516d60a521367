/* operator_mutate.c - small changes that keep most of a case, so that many cases are still accepted. */
#include "tests/fuzz/operator_mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dice {
    uint64_t state;
} dice;

static unsigned roll(dice *d, unsigned sides)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return sides ? (unsigned)(d->state >> 33) % sides : 0;
}

static int64_t number(dice *d)
{
    static const int64_t numbers[] = {
        -1, 0, 1, 2, 3, 4, 5, 7, 8, -2, -3, -9, 16, 100, 32, 64, INT32_MAX, INT64_C(1) << 40, INT64_C(1) << 62, INT64_MIN + 1};
    return numbers[roll(d, sizeof numbers / sizeof *numbers)];
}

static double real(dice *d)
{
    static const double numbers[] = {0, 1, -1, 0.5, 2, 1e-30, 1e30, -0.25, 3, 1e-5};
    return numbers[roll(d, sizeof numbers / sizeof *numbers)];
}

/* Returns a size: mostly small, often equal to another dimension's. */
static int64_t size(dice *d, const operator_case *c)
{
    if (roll(d, 2) && c->n_in) {
        const operator_input *in = &c->in[roll(d, (unsigned)c->n_in)];
        if (in->rank > 0) return in->dims[roll(d, (unsigned)in->rank)];
    }
    return roll(d, 12) ? 1 + roll(d, 6) : (int64_t)roll(d, 2) * 17;
}

static void change_input(dice *d, operator_case *c)
{
    if (!c->n_in) return;
    const int k = (int)roll(d, (unsigned)c->n_in);
    operator_input *in = &c->in[k];
    switch (roll(d, 9)) {
    case 0:
    case 1:
    case 2:
        if (in->rank > 0) in->dims[roll(d, (unsigned)in->rank)] = size(d, c);
        break;
    case 3:
        if (in->rank < 10) in->dims[in->rank++] = size(d, c);
        break;
    case 4:
        if (in->rank > 0) in->rank--;
        break;
    case 5:
        in->dtype = (mp_dtype)(1 + roll(d, MP_N_DTYPES - 1));
        break;
    case 6:
        if (k) in->same_as = (int)roll(d, (unsigned)k);
        in->is_there = true;
        break;
    case 7:
        if (roll(d, 2))
            in->n_values = -1;
        else if (in->n_values > 0)
            in->values[roll(d, (unsigned)in->n_values)] = roll(d, 2) ? (double)number(d) : real(d);
        break;
    default:
        if (roll(d, 2))
            in->is_there = false;
        else if (roll(d, 2))
            c->n_in--;
        else if (c->n_in < OPERATOR_INPUTS)
            c->in[c->n_in++] = *in;
    }
}

static void change_attribute(dice *d, operator_case *c)
{
    static const char *const names[] = {"axis",        "axes",       "keepdims", "group",     "num_groups", "p",
                                        "size",        "mode",       "transA",   "blocksize", "batch_dims", "k",
                                        "ceil_mode",   "pads",       "strides",  "dilations", "epsilon",    "layout",
                                        "hidden_size", "stash_type", "to",       "dtype",     "alpha",      "beta"};
    if (!c->n_attributes || !roll(d, 6)) {
        if (c->n_attributes == OPERATOR_ATTRIBUTES) return;
        operator_attribute *a = &c->attributes[c->n_attributes++];
        *a = (operator_attribute){.kind = MP_ATTRIBUTE_INT, .n = 1, .ints = {number(d)}, .floats = {real(d)}};
        snprintf(a->name, sizeof a->name, "%s", names[roll(d, sizeof names / sizeof *names)]);
        if (!roll(d, 3)) a->kind = MP_ATTRIBUTE_FLOAT;
        return;
    }
    const int k = (int)roll(d, (unsigned)c->n_attributes);
    operator_attribute *a = &c->attributes[k];
    switch (roll(d, 6)) {
    case 0:
        c->attributes[k] = c->attributes[--c->n_attributes];
        break;
    case 1:
        if (a->n < OPERATOR_LIST) a->floats[a->n] = (double)(a->ints[a->n] = number(d)), a->n++;
        break;
    case 2:
        if (a->n > 0) a->n--;
        break;
    case 3:
        if (a->kind == MP_ATTRIBUTE_TEXT) snprintf(a->text, sizeof a->text, "%s", roll(d, 2) ? "none" : "other");
        break;
    default:
        if (a->n > 0) {
            const unsigned at = roll(d, (unsigned)a->n);
            a->ints[at] = number(d);
            a->floats[at] = roll(d, 2) ? real(d) : (double)a->ints[at];
        }
    }
    if (!a->n && (a->kind == MP_ATTRIBUTE_INT || a->kind == MP_ATTRIBUTE_FLOAT)) a->n = 1;
}

void operator_mutate(operator_case *c, unsigned seed)
{
    dice d = {seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    for (unsigned n = 1 + roll(&d, 3); n > 0; n--) {
        switch (roll(&d, 10)) {
        case 0:
            c->version = 1 + (int)roll(&d, 25);
            break;
        case 1:
            c->wanted = roll(&d, 256);
            break;
        case 2:
            c->fill = (c->fill & ~3u) | roll(&d, 4);
            break;
        case 3:
            c->n_out = 1 + (int)roll(&d, OPERATOR_OUTPUTS);
            break;
        case 4:
        case 5:
            change_attribute(&d, c);
            break;
        default:
            change_input(&d, c);
        }
    }
    c->fill |= OPERATOR_MUTATED;
}
