/* network_json.c - reads the levels of a network from a file, and writes a level that was measured. */
#include "formats/json/network_json.h"

#include <math.h>

#include "formats/json/json.h"

static mp_status read_positive(const mp_json_record *row, const char *key, bool zero, double *value)
{
    MP_CHECK(mp_json_get_real(row, key, true, value));
    if (!isfinite(*value) || *value < 0 || (*value == 0 && !zero))
        return mp_json_record_fail(row, "\"%s\" is no number %s 0", key, zero ? ">=" : ">");
    return MP_OK;
}

static mp_status read_level(const json_t *levels, size_t k, mp_interconnect *out, mp_error *err)
{
    mp_json_record row;
    int64_t devices;
    mp_fabric level = {.name = "measured", .title = "as a file has it"};
    MP_CHECK(mp_json_record_at(levels, "levels", k, &row, err));
    MP_CHECK(mp_json_get_int(&row, "devices", true, &devices));
    MP_CHECK(read_positive(&row, "bytes_per_second", false, &level.bytes_per_second));
    MP_CHECK(read_positive(&row, "latency_seconds", true, &level.latency_seconds));
    if (devices < 0 || devices > 1 << 30) return mp_json_record_fail(&row, "\"devices\" is not a number of devices");
    level.devices = (int)devices;
    mp_fabric *at = devices ? &out->inside : &out->across;
    if (at->name) return mp_json_record_fail(&row, "there is a level %s already", devices ? "within nodes" : "between nodes");
    *at = level;
    return MP_OK;
}

mp_status mp_network_json_read(const char *path, mp_interconnect *out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(json_decref) json_t *file = NULL;
    const json_t *levels;
    mp_interconnect found = {0};
    MP_CHECK(mp_json_read(path, "memplan-network", &file, err));
    const mp_json_record own = {.object = file, .err = err};
    MP_CHECK(mp_json_get_array(&own, "levels", true, &levels));
    if (!json_array_size(levels)) return mp_json_record_fail(&own, "\"levels\" is empty: a network has one or two");
    for (size_t k = 0; k < json_array_size(levels); k++) MP_CHECK(read_level(levels, k, &found, err));
    if (!found.inside.name) { /* without a level within nodes, every device is a node of its own */
        found.inside = found.across;
        found.inside.devices = 1;
    }
    if (!found.across.name) found.across = found.inside;
    *out = found;
    return MP_OK;
}

mp_status mp_network_json_write(const char *path, const mp_fabric *level, const char *how, const mp_network_row *rows, size_t n,
                                mp_error *err)
{
    mp_json_out out = {0};
    mp_json_start(&out, json_pack("{ss si so}", "format", "memplan-network", "version", 1, "measured", mp_json_text(how)));
    mp_json_begin_array(&out, "levels");
    mp_json_row(&out, json_pack("{sI sf sf}", "devices", (json_int_t)level->devices, "bytes_per_second",
                                level->bytes_per_second, "latency_seconds", level->latency_seconds));
    mp_json_end_array(&out);
    mp_json_begin_array(&out, "collectives");
    for (size_t k = 0; k < n; k++)
        mp_json_row(&out, json_pack("{ss sI sf}", "collective", rows[k].collective, "bytes", (json_int_t)rows[k].bytes,
                                    "seconds", rows[k].seconds));
    mp_json_end_array(&out);
    return mp_json_finish(&out, path, err);
}
