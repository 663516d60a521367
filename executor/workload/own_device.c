/* own_device.c - reads a device from the text form of --device: a device of the table, with changes. */
#include "memplan/workloads/own_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/kernel/backend.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "memplan/budget.h"

enum { CHANGE_MAX = 64 }; /* maximum number of bytes in the text of one value */

typedef struct change {
    const char *key;
    size_t offset; /* offset of the field of mp_device that this key sets */
    /* factor from the unit of the text to the unit of the device profile's field; 0: the value is a number of bytes */
    double unit;
    int64_t least; /* smallest allowed number of bytes, for values in bytes */
} change;

static const change changes[] = {{"memory", offsetof(mp_device, memory_bytes), 0, 1},
                                 {"reserve", offsetof(mp_device, reserve_bytes), 0, 0},
                                 {"cache", offsetof(mp_device, cache_bytes), 0, 1},
                                 {"alignment", offsetof(mp_device, alignment), 0, 1},
                                 {"fp32", offsetof(mp_device, fp32_flops), 1e12, 0},
                                 {"tf32", offsetof(mp_device, tf32_flops), 1e12, 0},
                                 {"fp16", offsetof(mp_device, fp16_flops), 1e12, 0},
                                 {"bf16", offsetof(mp_device, bf16_flops), 1e12, 0},
                                 {"bandwidth", offsetof(mp_device, bytes_per_second), 1e9, 0},
                                 {"launch", offsetof(mp_device, launch_seconds), 1e-6, 0}};

static bool is_plain_name(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 && n < MP_DEVICE_NAME_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

/* Applies one change to a device. On failure *why is the reason, worded as the end of a sentence. */
static bool make_change(mp_own_device *d, const char *key, const char *value, const char **why)
{
    if (!strcmp(key, "name")) {
        *why = "is not a valid name; use at most 31 letters, digits, - and _";
        if (!is_plain_name(value)) return false;
        snprintf(d->name, sizeof d->name, "%s", value);
        return true;
    }
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
        const change *c = &changes[k];
        char *field = (char *)&d->profile + c->offset, *end;
        if (strcmp(key, c->key)) continue;
        if (!c->unit) {
            mp_budget b;
            *why = "is not a number of bytes; write it like 40GiB";
            if (!mp_budget_parse(value, &b, why) || b.kind != MP_BUDGET_BYTES || b.bytes < c->least) return false;
            memcpy(field, &b.bytes, sizeof b.bytes);
            d->has_reserve |= !strcmp(key, "reserve");
            return true;
        }
        const double number = strtod(value, &end) * c->unit;
        *why = "is no positive number";
        if (end == value || *end || !isfinite(number) || number <= 0) return false;
        memcpy(field, &number, sizeof number);
        return true;
    }
    *why = "is not a key of a device; use memory, reserve, cache, alignment, fp32, tf32, fp16, bf16, bandwidth, launch, name";
    return false;
}

/* Parses and applies one change, such as "fp16=60". The text has `length` bytes. */
static bool read_change(mp_own_device *d, const char *text, size_t length)
{
    char word[2 * CHANGE_MAX], *equals;
    const char *why;
    if (length >= sizeof word) return false;
    memcpy(word, text, length);
    word[length] = 0;
    equals = strchr(word, '=');
    if (equals) *equals = 0;
    return equals && make_change(d, word, equals + 1, &why);
}

bool mp_own_device_read(const char *text, mp_own_device *out)
{
    const char *comma = strchr(text, ',');
    char base[64];
    const size_t n = comma ? (size_t)(comma - text) : strlen(text);
    if (n >= sizeof base) return false;
    memcpy(base, text, n);
    base[n] = 0;
    const mp_device *row = mp_device_find(base);
    if (!row || (comma && mp_backend_is_name(row->name))) return false;
    *out = (mp_own_device){.profile = *row};
    snprintf(out->name, sizeof out->name, "%s", row->name);
    if (!comma) return true;
    for (const char *at = comma; at;) {
        const char *next = strchr(at + 1, ',');
        if (!read_change(out, at + 1, next ? (size_t)(next - at - 1) : strlen(at + 1))) return false;
        at = next;
    }
    if (strcmp(out->name, row->name))
        snprintf(out->title, sizeof out->title, "%s, like %s", out->name, row->title);
    else
        snprintf(out->title, sizeof out->title, "%s, changed: %s", row->title, comma + 1);
    out->profile.name = text;
    out->profile.title = out->title;
    return true;
}

bool mp_own_device_is(const char *text)
{
    mp_own_device own;
    return strchr(text, ',') && mp_own_device_read(text, &own);
}

bool mp_device_is_file(const char *text)
{
    const size_t n = strlen(text);
    return n > 5 && !strcmp(text + n - 5, ".json");
}

/* Sets the location of an error (line and column) to the first occurrence of a key in the device file. */
static void locate_key(const char *path, const char *key, mp_error *err)
{
    mp_file file;
    char quoted[CHANGE_MAX];
    const size_t n = (size_t)snprintf(quoted, sizeof quoted, "\"%.48s\"", key);
    int line = 1, column = 1;
    if (mp_file_open(path, INT64_C(1) << 20, &file, NULL) != MP_OK) return;
    for (size_t k = 0; k + n <= file.size; k++, column++) {
        if (!memcmp(file.bytes + k, quoted, n)) {
            mp_error_locate(err, path, line, column);
            break;
        }
        if (file.bytes[k] != '\n') continue;
        line++;
        column = 0;
    }
    mp_file_close(&file);
}

/* Writes a number or a text of the device file in the form that --device accepts. */
static bool value_text(const json_t *value, char *text)
{
    const char *string = json_string_value(value);
    int n = -1;
    if (string && !strpbrk(string, ",="))
        n = snprintf(text, CHANGE_MAX, "%s", string);
    else if (json_is_integer(value))
        n = snprintf(text, CHANGE_MAX, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        n = snprintf(text, CHANGE_MAX, "%.17g", json_real_value(value));
    return n > 0 && n < CHANGE_MAX;
}

/* Reads all keys of a device file. *at is the key that was read last, so that an error message can name it. */
static mp_status read_keys(json_t *object, mp_text_builder *out, const char **at, mp_error *err)
{
    const char *key, *like = json_string_value(json_object_get(object, "like")), *why = NULL;
    json_t *value;
    mp_own_device device;
    char text[CHANGE_MAX];
    *at = "like";
    MP_ENSURE(like, err, MP_PARSE, "\"like\" is missing; name a card of 'memplan devices' for the values missing in the file");
    MP_ENSURE(!strchr(like, ',') && mp_own_device_read(like, &device) && !mp_backend_is_name(device.profile.name), err,
              MP_PARSE, "\"like\": there is no card '%.64s'; 'memplan devices' lists the cards", like);
    mp_text_put(out, device.profile.name);
    json_object_foreach(object, key, value)
    {
        *at = key;
        if (!strcmp(key, "format") || !strcmp(key, "version") || !strcmp(key, "like")) continue;
        MP_ENSURE(value_text(value, text), err, MP_PARSE,
                  "\"%.48s\" is neither a number nor a text of at most %d bytes without , and =", key, CHANGE_MAX - 1);
        MP_ENSURE(make_change(&device, key, text, &why), err, MP_PARSE, "\"%.48s\" %s", key, why);
        mp_text_format(out, ",%s=%s", key, text);
    }
    return MP_OK;
}

mp_status mp_device_file_read(const char *path, char **text, mp_error *err)
{
    MP_ABOUT(err, path);
    const char *key = NULL;
    MP_OWNED_BY(json_decref) json_t *object = NULL;
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder out = {0};
    MP_CHECK(mp_json_read(path, "memplan-device", &object, err));
    const mp_status st = read_keys(object, &out, &key, err);
    if (st == MP_PARSE) locate_key(path, key, err);
    MP_CHECK(st);
    MP_ENSURE(!out.failed, err, MP_NOMEM, "a device");
    *text = out.text;
    out.text = NULL;
    return MP_OK;
}

mp_status mp_workload_device(const mp_workload_options *o, const mp_backend **backend, mp_own_device *device, mp_error *err)
{
    const bool is_own = o->own_device && !strcmp(o->device, "cuda");
    MP_CHECK(mp_backend_open(is_own ? mp_text("cuda:%d", o->own_device) : o->device, backend, err));
    if (*backend)
        *device = (mp_own_device){.profile = *(*backend)->device(*backend)};
    else
        MP_ENSURE(mp_own_device_read(o->device, device), err, MP_INVALID, "there is no device '%s'", o->device);
    if (o->rates) device->profile.rates = mp_rates_of(o->rates);
    return MP_OK;
}
