/* operator_case.c - parses a line of text as an operator, and writes it back. */
#include "tests/fuzz/operator_case.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/simplify/infer.h"

/* Returns a double as an integer, limited to the range of int64_t. */
static int64_t whole(double value)
{
    if (!(value > -9e18)) return INT64_MIN + 1;
    return value < 9e18 ? (int64_t)value : INT64_MAX;
}

/* Parses "[1,2]" or "{1,2}" at *text, and moves *text past it; -1: no list. */
static int read_list(char **text, char open, char close, double *list)
{
    int n = 0;
    char *p = *text, *end;
    if (*p++ != open) return -1;
    while (*p && *p != close) {
        if (n == OPERATOR_LIST) return -1;
        list[n++] = strtod(p, &end);
        if (end == p) return -1;
        p = *end == ',' ? end + 1 : end;
    }
    if (*p != close) return -1;
    *text = p + 1;
    return n;
}

static bool read_input(char *text, int k, operator_input *in)
{
    double list[OPERATOR_LIST];
    *in = (operator_input){.is_there = true, .same_as = -1, .n_values = -1};
    if (!strcmp(text, "-")) {
        in->is_there = false;
        return true;
    }
    if (*text == '@') {
        in->same_as = (int)strtol(text + 1, NULL, 10);
        return in->same_as >= 0 && in->same_as < k;
    }
    size_t n = strcspn(text, "[");
    for (int d = 0; d < MP_N_DTYPES; d++)
        if (strlen(mp_dtype_name((mp_dtype)d)) == n && !strncmp(mp_dtype_name((mp_dtype)d), text, n)) in->dtype = (mp_dtype)d;
    text += n;
    in->rank = read_list(&text, '[', ']', list);
    if (in->rank < 0 || !in->dtype) return false;
    for (int d = 0; d < in->rank; d++) in->dims[d] = whole(list[d]);
    if (*text != '=') return !*text;
    text++;
    in->n_values = read_list(&text, '{', '}', in->values);
    return in->n_values >= 0 && !*text;
}

static bool read_attribute(char *text, operator_attribute *a)
{
    char *value = strchr(text, '='), *end;
    if (!value || value == text || (size_t)(value - text) >= sizeof a->name) return false;
    *a = (operator_attribute){.kind = MP_ATTRIBUTE_TEXT};
    memcpy(a->name, text, (size_t)(value - text));
    snprintf(a->text, sizeof a->text, "%s", ++value);
    bool is_real = strchr(value, '.') != NULL;
    double number = strtod(value, &end);
    if (*value == '[') {
        a->n = read_list(&value, '[', ']', a->floats);
        if (a->n < 0) return false;
        for (int k = 0; k < a->n; k++) a->ints[k] = whole(a->floats[k]);
        a->kind = is_real ? MP_ATTRIBUTE_FLOATS : MP_ATTRIBUTE_INTS;
    } else if (end > value && !*end) {
        a->kind = is_real ? MP_ATTRIBUTE_FLOAT : MP_ATTRIBUTE_INT;
        a->n = 1;
        a->floats[0] = number;
        a->ints[0] = strtoll(value, NULL, 10);
    }
    return true;
}

static bool read_parts(char *parts[4], operator_case *c)
{
    char *rest = parts[0], *word, *colon;
    word = strtok_r(rest, " ", &rest);
    if (!word) return false;
    if ((colon = strchr(word, ':'))) {
        *colon = 0;
        snprintf(c->domain, sizeof c->domain, "%s", word);
        word = colon + 1;
    }
    snprintf(c->kind, sizeof c->kind, "%s", word);
    c->version = (word = strtok_r(rest, " ", &rest)) ? (int)strtol(word, NULL, 10) : 0;
    for (rest = parts[1]; (word = strtok_r(rest, " ", &rest)); c->n_in++)
        if (c->n_in == OPERATOR_INPUTS || !read_input(word, c->n_in, &c->in[c->n_in])) return false;
    for (rest = parts[2]; (word = strtok_r(rest, " ", &rest)); c->n_attributes++)
        if (c->n_attributes == OPERATOR_ATTRIBUTES || !read_attribute(word, &c->attributes[c->n_attributes])) return false;
    rest = parts[3];
    c->n_out = (word = strtok_r(rest, " ", &rest)) ? (int)strtol(word, NULL, 10) : 1;
    c->wanted = (word = strtok_r(rest, " ", &rest)) ? (unsigned)strtoul(word, NULL, 10) : 0;
    c->fill = (word = strtok_r(rest, " ", &rest)) ? (unsigned)strtoul(word, NULL, 10) : 0;
    return abs(c->n_out) <= OPERATOR_OUTPUTS && c->n_out;
}

bool operator_case_read(const char *text, size_t n, operator_case *c)
{
    char copy[4 * OPERATOR_TEXT], *parts[4] = {copy, "", "", ""}, *bar = copy;
    *c = (operator_case){0};
    if (n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    copy[strcspn(copy, "\n")] = 0;
    for (int k = 1; k < 4; k++) {
        if (!(bar = strchr(bar, '|'))) return false;
        *bar++ = 0;
        parts[k] = bar;
    }
    return read_parts(parts, c);
}

typedef struct writer {
    char *line;
    size_t n;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = 4 * OPERATOR_TEXT - w->n;
    const int n = vsnprintf(w->line + w->n, room, format, args);
    va_end(args);
    if (n > 0) w->n += (size_t)n < room ? (size_t)n : room - 1;
}

void operator_case_write(const operator_case *c, char line[4 * OPERATOR_TEXT])
{
    writer w = {line, 0};
    put(&w, "%s%s%s %d |", c->domain, *c->domain ? ":" : "", c->kind, c->version);
    for (int k = 0; k < c->n_in; k++) {
        const operator_input *in = &c->in[k];
        if (!in->is_there || in->same_as >= 0) {
            put(&w, in->is_there ? " @%d" : " -", in->same_as);
            continue;
        }
        put(&w, " %s[", mp_dtype_name(in->dtype));
        for (int d = 0; d < in->rank; d++) put(&w, "%s%" PRId64, d ? "," : "", in->dims[d]);
        put(&w, "]");
        for (int v = 0; v < in->n_values; v++) put(&w, "%s%.9g", v ? "," : "={", in->values[v]);
        put(&w, "%s", in->n_values > 0 ? "}" : in->n_values == 0 ? "={}" : "");
    }
    put(&w, " |");
    for (int k = 0; k < c->n_attributes; k++) {
        const operator_attribute *a = &c->attributes[k];
        put(&w, " %s=", a->name);
        if (a->kind == MP_ATTRIBUTE_TEXT) put(&w, "%s", a->text);
        if (a->kind == MP_ATTRIBUTE_INT) put(&w, "%" PRId64, a->ints[0]);
        if (a->kind == MP_ATTRIBUTE_FLOAT) put(&w, "%#.9g", a->floats[0]);
        if (a->kind != MP_ATTRIBUTE_INTS && a->kind != MP_ATTRIBUTE_FLOATS) continue;
        put(&w, "[");
        for (int v = 0; v < a->n; v++)
            a->kind == MP_ATTRIBUTE_INTS ? put(&w, "%s%" PRId64, v ? "," : "", a->ints[v])
                                         : put(&w, "%s%#.9g", v ? "," : "", a->floats[v]);
        put(&w, "]");
    }
    put(&w, " | %d %u %u", c->n_out, c->wanted, c->fill);
}

static mp_status add_input(const operator_case *c, int k, mp_model *model, int *tensor, mp_error *err)
{
    const operator_input *in = &c->in[k];
    char name[16];
    *tensor = -1;
    if (!in->is_there) return MP_OK;
    snprintf(name, sizeof name, "in%d", k);
    MP_CHECK(mp_model_tensor(model, name, tensor, err));
    MP_CHECK(mp_tensor_set(model, *tensor, in->dtype, in->rank, in->dims, err));
    mp_tensor *t = &model->tensors[*tensor];
    t->role = MP_ROLE_DATA;
    if (in->n_values >= 0 && mp_tensor_elements(t) == in->n_values && mp_dtype_bits(in->dtype)) {
        mp_value *value = mp_value_new(model, in->n_values, mp_dtype_is_float(in->dtype));
        MP_ENSURE(value, err, MP_NOMEM, "out of memory");
        for (int v = 0; v < in->n_values; v++) {
            if (value->is_real)
                value->f[v] = (double)(float)in->values[v];
            else
                value->i[v] = whole(in->values[v]);
        }
        t->value = value;
    }
    return MP_OK;
}

mp_status operator_case_model(const operator_case *c, mp_model **model, mp_error *err)
{
    int in[OPERATOR_INPUTS], out[OPERATOR_OUTPUTS], index;
    mp_attribute attributes[OPERATOR_ATTRIBUTES];
    operator_case own = *c; /* the draft's lists are not const */
    *model = NULL;
    MP_CHECK(mp_model_new("fuzz", "", model, err));
    mp_operator_draft draft = {.name = "op",
                               .kind = c->kind,
                               .domain = c->domain,
                               .version = c->version,
                               .in = in,
                               .out = out,
                               .n_in = c->n_in,
                               .n_out = abs(c->n_out),
                               .attributes = attributes,
                               .n_attributes = (size_t)c->n_attributes};
    for (int k = 0; k < c->n_in; k++) {
        if (c->in[k].same_as >= 0)
            in[k] = in[c->in[k].same_as];
        else
            MP_CHECK(add_input(c, k, *model, &in[k], err));
    }
    for (int k = 0; k < c->n_attributes; k++) {
        operator_attribute *a = &own.attributes[k];
        attributes[k] = (mp_attribute){.name = a->name,
                                       .kind = a->kind,
                                       .i = a->ints[0],
                                       .f = a->floats[0],
                                       .text = a->text,
                                       .n = (size_t)a->n,
                                       .ints = a->kind == MP_ATTRIBUTE_INTS ? a->ints : NULL,
                                       .floats = a->kind == MP_ATTRIBUTE_FLOATS ? a->floats : NULL};
    }
    for (int k = 0; k < draft.n_out; k++) {
        char name[16];
        snprintf(name, sizeof name, "out%d", k);
        out[k] = -1;
        if (k || c->n_out > 0) MP_CHECK(mp_model_tensor(*model, name, &out[k], err));
    }
    MP_CHECK(mp_model_operator(*model, &draft, &index, err));
    return mp_operator_infer(*model, index, err);
}
