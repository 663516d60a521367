/* options_json.c - converts the options that shape a training graph to the `options` object of graphs and plans, and back. */
#include "cli/options/options.h"

#include <string.h>

#include "cli/messages/quantities.h"
#include "estimator/base/memory.h"
#include "formats/json/json.h"

static json_t *bindings_to_json(const text_list *list)
{
    json_t *object = json_object();
    for (size_t k = 0; object && k < list->n; k++) {
        const char *equals = strrchr(list->items[k], '=');
        int64_t size = 0;
        parse_count(equals + 1, &size);
        const size_t length = (size_t)(equals - list->items[k]);
        char *name = mp_alloc(length + 1, 1);
        if (name) memcpy(name, list->items[k], length);
        const bool set = name && json_object_set_new(object, name, json_integer(size)) == 0;
        mp_free(name);
        if (!set) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *list_to_json(const text_list *list)
{
    json_t *array = json_array();
    for (size_t k = 0; k < list->n; k++) mp_json_append(&array, json_string(list->items[k]));
    return array;
}

/* Returns the value of one option as JSON; JSON null if the option was not given and has no default. */
static json_t *to_json(const options *o, const option_row *row)
{
    const void *field = (const char *)o + row->offset;
    switch (row->kind) {
    case KIND_FLAG:
    case KIND_OFF:
        return json_boolean(*(const bool *)field);
    case KIND_TEXT:
    case KIND_CHOICE:
        return *(const char *const *)field ? json_string(*(const char *const *)field) : json_null();
    case KIND_LIST:
        return list_to_json(field);
    case KIND_BINDING:
        return bindings_to_json(field);
    case KIND_COUNT:
    case KIND_BYTES:
        return *(const int64_t *)field ? json_integer(*(const int64_t *)field) : json_null();
    case KIND_PERCENT:
    case KIND_POSITIVE:
        return *(const double *)field > 0 ? json_real(*(const double *)field) : json_null();
    }
    return NULL;
}

/* True if an option with its present value is written to the `options` object of a graph. */
static bool is_said(const options *o, const option_row *row)
{
    const void *field = (const char *)o + row->offset;
    if (!row->key || !row->is_rare) return row->key;
    return row->kind == KIND_FLAG ? *(const bool *)field : ((const text_list *)field)->n > 0;
}

json_t *options_to_json(const options *o)
{
    json_t *object = json_object();
    for (int k = 0; k < N_OPTIONS; k++)
        if (is_said(o, &option_rows[k])) mp_json_set(&object, option_rows[k].key, to_json(o, &option_rows[k]));
    return object;
}

static mp_status adopt_list(text_list *list, const json_t *array, const char *key, mp_error *err)
{
    size_t k;
    json_t *item;
    if (!json_is_array(array)) return MP_FAIL(err, MP_PARSE, "the options' %s is not a list", key);
    json_array_foreach(array, k, item)
    {
        if (!json_is_string(item)) return MP_FAIL(err, MP_PARSE, "the options' %s contains an entry that is not a string", key);
        if (!mp_grow(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
            return MP_FAIL(err, MP_NOMEM, "the options' %s", key);
        list->items[list->n++] = json_string_value(item);
    }
    return MP_OK;
}

/* Converts a JSON object of sizes to a list of texts NAME=N. `source` owns these texts, in an array that is added to it. */
static mp_status adopt_bindings(options *o, text_list *list, json_t *object, const char *key, mp_error *err)
{
    const char *name;
    json_t *size;
    MP_OWNED_BY(json_decref) json_t *texts = json_array();
    MP_ENSURE(texts, err, MP_NOMEM, "the options' %s", key);
    MP_ENSURE(json_is_object(object), err, MP_PARSE, "the options' %s is not an object", key);
    json_object_foreach(object, name, size)
    {
        MP_ENSURE(json_is_integer(size) && json_integer_value(size) >= 0, err, MP_PARSE, "the options' %s has no size for %s",
                  key, name);
        MP_ENSURE(!json_array_append_new(texts, json_sprintf("%s=%lld", name, (long long)json_integer_value(size))), err,
                  MP_NOMEM, "the options' %s", key);
    }
    MP_CHECK(adopt_list(list, texts, key, err));
    MP_ENSURE(!json_object_set(o->source, "", texts), err, MP_NOMEM, "the options' %s", key);
    return MP_OK;
}

static mp_status adopt(options *o, const option_row *row, json_t *value, mp_error *err)
{
    void *field = (char *)o + row->offset;
    switch (row->kind) {
    case KIND_FLAG:
    case KIND_OFF:
        if (!json_is_boolean(value)) return MP_FAIL(err, MP_PARSE, "the options' %s is neither true nor false", row->key);
        *(bool *)field = json_is_true(value);
        break;
    case KIND_CHOICE:
    case KIND_TEXT: {
        const char *text = json_string_value(value);
        if (!text || (row->kind == KIND_CHOICE && !option_taken(row, text)))
            return MP_FAIL(err, MP_PARSE, "the options' %s is '%s', which is unknown", row->key, text ? text : "no text");
        *(const char **)field = text;
        break;
    }
    case KIND_LIST:
        return adopt_list(field, value, row->key, err);
    case KIND_BINDING:
        return adopt_bindings(o, field, value, row->key, err);
    case KIND_COUNT:
    case KIND_BYTES:
        MP_ENSURE(json_is_integer(value) && json_integer_value(value) >= row->least, err, MP_PARSE,
                  "the options' %s is not a whole number of at least %lld", row->key, (long long)row->least);
        *(int64_t *)field = json_integer_value(value);
        break;
    case KIND_PERCENT:
    case KIND_POSITIVE:
        if (!json_is_number(value) || !(json_number_value(value) > 0))
            return MP_FAIL(err, MP_PARSE, "the options' %s is not a positive number", row->key);
        *(double *)field = json_number_value(value);
        break;
    }
    return MP_OK;
}

/* True if two JSON values are equal, or are numbers of equal value, because other programs write 1.0 as 1. */
static bool is_same(const json_t *a, const json_t *b)
{
    return json_equal(a, b) || (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

mp_status options_adopt(options *o, json_t *source, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *given = NULL;
    MP_OWNED char *text = NULL;
    MP_ENSURE(json_is_object(source), err, MP_PARSE, "its options are not an object");
    o->source = json_incref(source);
    given = options_to_json(o);
    MP_ENSURE(given, err, MP_NOMEM, "the options");
    for (int k = 0; k < N_OPTIONS; k++) {
        const option_row *row = &option_rows[k];
        json_t *value = row->key ? json_object_get(source, row->key) : NULL;
        if (!value) continue;
        if (k == OPT_OFFLOAD && o->command == CMD_TRAIN && option_given(o, OPT_OFFLOAD))
            continue; /* the folder of the plan may not exist on this machine, so the one on the command line is used */
        if (option_given(o, (option_id)k)) {
            if (is_same(json_object_get(given, row->key), value)) continue;
            MP_ENSURE(text = mp_json_print(value, 0), err, MP_NOMEM, "the options");
            return MP_FAIL(err, MP_INVALID, "--%s contradicts the plan, which was made with %s", row->name, text);
        } else if (!json_is_null(value)) {
            MP_CHECK(adopt(o, row, value, err));
        }
    }
    return MP_OK;
}
