/* options_json.c - converts the options that shape a graph to and from the `options` object of graphs and plans. */
#include "executor/workload/options_json.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/quantities.h"
#include "executor/workload/option_rows.h"
#include "formats/json/json.h"

static json_t *bindings_to_json(const mp_text_list *list)
{
    json_t *object = json_object();
    for (size_t k = 0; object && k < list->n; k++) {
        const char *equals = strrchr(list->items[k], '=');
        int64_t size = 0;
        mp_count_parse(equals + 1, &size);
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

static json_t *list_to_json(const mp_text_list *list)
{
    json_t *array = json_array();
    for (size_t k = 0; k < list->n; k++) mp_json_append(&array, json_string(list->items[k]));
    return array;
}

/* Returns the value of one option as JSON; JSON null if the option was not given and has no default. */
static json_t *to_json(const mp_workload_options *o, const mp_option_row *row)
{
    const void *field = (const char *)o + row->offset;
    switch (row->kind) {
    case MP_VALUE_FLAG:
    case MP_VALUE_OFF:
        return json_boolean(*(const bool *)field);
    case MP_VALUE_TEXT:
    case MP_VALUE_CHOICE:
        return *(const char *const *)field ? json_string(*(const char *const *)field) : json_null();
    case MP_VALUE_MESH:
        return mp_mesh_devices(field) ? json_string(mp_mesh_write(field).text) : json_null();
    case MP_VALUE_LIST:
        return list_to_json(field);
    case MP_VALUE_BINDING:
        return bindings_to_json(field);
    case MP_VALUE_COUNT:
    case MP_VALUE_BYTES:
        return *(const int64_t *)field ? json_integer(*(const int64_t *)field) : json_null();
    case MP_VALUE_PERCENT:
    case MP_VALUE_POSITIVE:
        return *(const double *)field > 0 ? json_real(*(const double *)field) : json_null();
    }
    return NULL;
}

/* True if this option is written to the `options` object of a graph. */
static bool is_said(const mp_option_row *row, const json_t *value)
{
    if (!row->key || !row->is_rare) return row->key;
    return !json_is_null(value) && !json_is_false(value) && !(json_is_array(value) && !json_array_size(value));
}

json_t *mp_workload_options_json(const mp_workload_options *o)
{
    json_t *object = json_object();
    for (int k = 0; k < MP_N_WORKLOAD_OPTIONS; k++) {
        const mp_option_row *row = &mp_workload_option_rows[k];
        json_t *value = row->key ? to_json(o, row) : NULL;
        if (row->key && (!value || is_said(row, value)))
            mp_json_set(&object, row->key, value);
        else if (value)
            json_decref(value);
    }
    return object;
}

/* Replaces a list by the texts of a JSON array, which continues to own them. */
static mp_status adopt_list(mp_text_list *list, const json_t *array, const char *key, mp_error *err)
{
    size_t k;
    json_t *item;
    *list = (mp_text_list){.items = list->capacity ? list->items : NULL, .capacity = list->capacity};
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

/* Converts a JSON object of sizes to a list of texts NAME=N, which o->adopted owns. */
static mp_status adopt_bindings(mp_workload_options *o, mp_text_list *list, json_t *object, const char *key, mp_error *err)
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
    MP_ENSURE(!json_array_append(o->adopted, texts), err, MP_NOMEM, "the options' %s", key);
    return adopt_list(list, texts, key, err);
}

static mp_status adopt(mp_workload_options *o, const mp_option_row *row, json_t *value, mp_error *err)
{
    void *field = (char *)o + row->offset;
    switch (row->kind) {
    case MP_VALUE_FLAG:
    case MP_VALUE_OFF:
        if (!json_is_boolean(value)) return MP_FAIL(err, MP_PARSE, "the options' %s is neither true nor false", row->key);
        *(bool *)field = json_is_true(value);
        break;
    case MP_VALUE_CHOICE:
    case MP_VALUE_TEXT: {
        const char *text = json_string_value(value);
        if (!text || (row->kind == MP_VALUE_CHOICE && !mp_choice_taken(row, text)))
            return MP_FAIL(err, MP_PARSE, "the options' %s is '%s', which is unknown", row->key, text ? text : "no text");
        *(const char **)field = text;
        break;
    }
    case MP_VALUE_MESH:
        MP_ENSURE(json_is_string(value) && mp_mesh_read(json_string_value(value), field, NULL) == MP_OK, err, MP_PARSE,
                  "the options' %s is not a mesh like dp=2,pp=2", row->key);
        break;
    case MP_VALUE_LIST:
        return adopt_list(field, value, row->key, err);
    case MP_VALUE_BINDING:
        return adopt_bindings(o, field, value, row->key, err);
    case MP_VALUE_COUNT:
    case MP_VALUE_BYTES:
        MP_ENSURE(json_is_integer(value) && json_integer_value(value) >= row->least, err, MP_PARSE,
                  "the options' %s is not a whole number of at least %lld", row->key, (long long)row->least);
        *(int64_t *)field = json_integer_value(value);
        break;
    case MP_VALUE_PERCENT:
    case MP_VALUE_POSITIVE:
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

mp_status mp_workload_options_adopt(mp_workload_options *o, const bool *given, json_t *source, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *own = NULL;
    MP_OWNED char *text = NULL;
    MP_ENSURE(json_is_object(source), err, MP_PARSE, "its options are not an object");
    if (!o->adopted) o->adopted = json_array();
    /* plans without the setting were made by versions without achieved rates, so their seconds are at peak rates */
    const json_t *rates = json_object_get(source, mp_workload_option_rows[MP_OPTION_RATES].key);
    if ((!rates || json_is_null(rates)) && !(given && given[MP_OPTION_RATES])) o->rates = NULL;
    own = mp_workload_options_json(o);
    MP_ENSURE(own && o->adopted && !json_array_append(o->adopted, source), err, MP_NOMEM, "the options");
    for (int k = 0; k < MP_N_WORKLOAD_OPTIONS; k++) {
        const mp_option_row *row = &mp_workload_option_rows[k];
        json_t *value = row->key ? json_object_get(source, row->key) : NULL;
        if (!value) continue;
        /* the given folder is not compared with the plan's, because the folder may differ on the machine that trains */
        if (k == MP_OPTION_OFFLOAD && o->trains && given && given[k]) continue;
        if (given && given[k]) {
            if (is_same(json_object_get(own, row->key), value)) continue;
            MP_ENSURE(text = mp_json_print(value, 0), err, MP_NOMEM, "the options");
            return MP_FAIL(err, MP_INVALID, "--%s contradicts the plan, which was made with %s", row->name, text);
        } else if (!json_is_null(value)) {
            MP_CHECK(adopt(o, row, value, err));
        }
    }
    return MP_OK;
}
